//! The verdict on the key. Pure.

use super::super::facts::identity::IdentityFacts;
use super::super::finding::Finding;

/// Judges the key of this process.
pub(in super::super) fn key(facts: &IdentityFacts) -> Finding {
    const CHECK: &str = "key";
    let key = match facts {
        IdentityFacts::Missing { path } => {
            return Finding::warning(
                CHECK,
                format!(
                    "no key is named, and this user has none yet in {}",
                    path.display()
                ),
                "Name the service's key with --key or MILLSTREAM_KEY; `millstream up` creates a key for this machine.",
            );
        }
        IdentityFacts::Unusable(reason) => {
            return Finding::problem(
                CHECK,
                reason.clone(),
                "Name a key file of mode 0600 with --key or MILLSTREAM_KEY; `millstream key --help` shows how to make one.",
            );
        }
        IdentityFacts::Usable(key) => key,
    };
    let permits = match key.role {
        None => "a cluster key, which permits every role,".to_owned(),
        Some(role) => format!("a key of the role `{role}`"),
    };
    let accepted = match key.accepted {
        0 => String::new(),
        count => format!("; the holders of {count} further keys are accepted"),
    };
    let reach = if key.is_named {
        ""
    } else {
        "; it serves this machine only"
    };
    let found = format!(
        "{permits} from {} with the fingerprint {}{accepted}{reach}",
        key.source, key.fingerprint
    );
    if let Some((folder, mode)) = &key.open_folder {
        let folder = folder.display();
        return Finding::warning(
            CHECK,
            format!("{found}; other users may replace the key file, because its folder has mode {mode:04o}"),
            format!("Run `chmod go-w {folder}`."),
        );
    }
    Finding::ok(CHECK, found)
}

#[cfg(test)]
mod tests {
    use millstream::link::Role;

    use super::super::super::facts::identity::UsableKey;
    use super::super::super::finding::Level;
    use super::*;

    fn usable() -> UsableKey {
        UsableKey {
            source: "--key (read.key)".to_owned(),
            role: Some(Role::Read),
            fingerprint: "0123abcd".to_owned(),
            accepted: 0,
            is_named: true,
            open_folder: None,
        }
    }

    #[test]
    fn a_key_is_named_by_its_fingerprint() {
        let good = key(&IdentityFacts::Usable(usable()));
        assert_eq!(good.level, Level::Ok);
        for part in ["`read`", "--key (read.key)", "0123abcd"] {
            assert!(good.found.contains(part), "{good:?}");
        }
        let own = UsableKey {
            role: None,
            accepted: 2,
            is_named: false,
            ..usable()
        };
        let own = key(&IdentityFacts::Usable(own));
        for part in ["every role", "2 further keys", "this machine only"] {
            assert!(own.found.contains(part), "{own:?}");
        }
    }

    #[test]
    fn unusable_keys_are_problems() {
        let missing = key(&IdentityFacts::Missing { path: "/x".into() });
        assert_eq!(missing.level, Level::Warning);
        let unusable = key(&IdentityFacts::Unusable("mode 0644".to_owned()));
        assert_eq!(
            (unusable.level, unusable.found.as_str()),
            (Level::Problem, "mode 0644")
        );
        let open = UsableKey {
            open_folder: Some(("/tmp/keys".into(), 0o777)),
            ..usable()
        };
        let open = key(&IdentityFacts::Usable(open));
        assert_eq!(
            (open.level, open.cure.as_str()),
            (Level::Warning, "Run `chmod go-w /tmp/keys`.")
        );
    }
}
