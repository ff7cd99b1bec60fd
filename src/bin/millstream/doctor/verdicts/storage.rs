//! The verdict on the credentials of an object store. Pure; knows names only.

use super::super::facts::storage::CredentialFacts;
use super::super::finding::Finding;
use super::super::stores::Store;

/// Judges the credentials of a store. `can_read` is true if this build contains the client of the store.
pub(in super::super) fn credentials(store: &Store, facts: &CredentialFacts, can_read: bool) -> Finding {
    let check = store.scheme;
    if !can_read {
        return Finding::ok(
            check,
            format!(
                "this build reads no {check}:// files, because it lacks the feature `storage`; {}",
                visible(facts)
            ),
        );
    }
    if let Some(name) = facts.dangling.first() {
        return Finding::warning(
            check,
            format!("{name} names a file that does not exist"),
            format!("Correct the path in {name}, or unset it."),
        );
    }
    let is_set = |name: &&str| facts.variables.contains(name);
    let complete = store.alternatives.iter().any(|names| names.iter().all(&is_set));
    if complete || !facts.files_read.is_empty() {
        return Finding::ok(check, visible(facts));
    }
    let begun = store
        .alternatives
        .iter()
        .find(|names| names.first().is_some_and(&is_set));
    if let Some(names) = begun {
        let missing: Vec<&str> = names.iter().copied().filter(|name| !is_set(name)).collect();
        let missing = missing.join(" and ");
        return Finding::warning(
            check,
            format!("{}, but {missing} is missing", visible(facts)),
            format!("Set {missing} too, for every worker and for the dispatcher."),
        );
    }
    if let Some(file) = facts.files_ignored.first() {
        return Finding::warning(
            check,
            format!("the environment has no credentials, and workers do not read ~/{file}"),
            format!(
                "Set {} for every worker and for the dispatcher, if datasets name {check}:// files.",
                store
                    .alternatives
                    .first()
                    .copied()
                    .unwrap_or_default()
                    .join(" and ")
            ),
        );
    }
    Finding::ok(
        check,
        format!(
            "{}; a machine in the cloud may have an identity of its own",
            visible(facts)
        ),
    )
}

/// Lists the visible credentials by name.
fn visible(facts: &CredentialFacts) -> String {
    let variables = facts.variables.iter().map(|name| (*name).to_owned());
    let files = facts.files_read.iter().map(|file| format!("~/{file}"));
    let names: Vec<String> = variables.chain(files).collect();
    if names.is_empty() {
        "the environment has no credentials".to_owned()
    } else {
        format!("found {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Level;
    use super::super::super::stores::STORES;
    use super::*;

    fn facts(variables: &[&'static str]) -> CredentialFacts {
        CredentialFacts {
            variables: variables.to_vec(),
            ..CredentialFacts::default()
        }
    }

    #[test]
    fn complete_credentials_are_listed_by_name() {
        let [s3, gs, az] = &STORES;
        let good = credentials(s3, &facts(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]), true);
        assert_eq!(good.level, Level::Ok);
        assert_eq!(good.found, "found AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY");
        let file = CredentialFacts {
            files_read: vec![".config/gcloud/application_default_credentials.json"],
            ..CredentialFacts::default()
        };
        let good = credentials(gs, &file, true);
        assert_eq!(
            (good.level, good.found.contains("~/.config/gcloud")),
            (Level::Ok, true)
        );
        assert_eq!(credentials(az, &facts(&[]), true).level, Level::Ok);
        let unread = credentials(az, &facts(&[]), false);
        assert_eq!(
            (unread.level, unread.found.contains("`storage`")),
            (Level::Ok, true)
        );
    }

    #[test]
    fn incomplete_credentials_name_the_missing_part() {
        let [s3, _, az] = &STORES;
        for (store, set, missing) in [
            (s3, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            (s3, "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
            (az, "AZURE_CLIENT_SECRET", "AZURE_CLIENT_ID and AZURE_TENANT_ID"),
        ] {
            let finding = credentials(store, &facts(&[set]), true);
            assert_eq!(finding.level, Level::Warning);
            assert!(
                finding.cure.contains(&format!("Set {missing} too")),
                "{finding:?}"
            );
        }
        let ignored = CredentialFacts {
            files_ignored: vec![".aws/credentials"],
            ..CredentialFacts::default()
        };
        let ignored = credentials(s3, &ignored, true);
        assert_eq!(ignored.level, Level::Warning);
        assert!(
            ignored.found.contains("do not read ~/.aws/credentials"),
            "{ignored:?}"
        );
        let dangling = CredentialFacts {
            dangling: vec!["AWS_WEB_IDENTITY_TOKEN_FILE"],
            ..facts(&["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])
        };
        assert_eq!(credentials(s3, &dangling, true).level, Level::Warning);
    }
}
