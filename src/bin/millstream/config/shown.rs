//! The settings in force, as people may see them: without keys, and without the secrets of URLs.

use millstream::admin::Setting as ShownSetting;
use millstream::link::KeySource;
use millstream::pipeline::storage::without_secrets;

use super::layers::{Origin, Setting, variable};
use super::parsing::in_force;

/// The text in place of a key.
const HIDDEN: &str = "(not shown)";

/// Returns the settings with which this process was started, for its admin port.
pub(crate) fn shown_in_force() -> Vec<ShownSetting> {
    in_force().iter().map(shown).collect()
}

fn shown(setting: &Setting) -> ShownSetting {
    let values = texts(setting);
    ShownSetting {
        name: format!("--{}", setting.name),
        value: (!values.is_empty()).then(|| values.join(", ")),
        origin: origin_text(setting),
    }
}

/// Returns the origins of a setting in words.
pub(super) fn origin_text(setting: &Setting) -> String {
    let origin = setting.origin.text();
    match setting.added.is_empty() {
        true => origin,
        false => format!("{origin}, and variable {}", variable(&setting.name)),
    }
}

/// Returns whether the value of a setting is a key, which is not shown.
pub(super) fn is_hidden(setting: &Setting) -> bool {
    texts(setting).iter().any(|text| text == HIDDEN)
}

/// Returns the values of a setting, without secrets.
pub(super) fn texts(setting: &Setting) -> Vec<String> {
    if setting.name != "key" {
        let values = setting.values.iter().chain(&setting.added);
        return values.map(|value| without_secrets(value).into_owned()).collect();
    }
    match setting.values.first() {
        None if setting.origin == Origin::Default => Vec::new(),
        // The text of a key is refused as an argument.
        Some(path) if KeySource::from_argument(path).is_ok() => vec![path.clone()],
        Some(_) | None => vec![HIDDEN.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, values: &[&str], origin: Origin) -> Setting {
        Setting {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            added: Vec::new(),
            is_switch: false,
            is_repeatable: true,
            origin,
        }
    }

    #[test]
    fn secrets_of_settings_are_not_shown() {
        let key = millstream::link::ClusterKey::generate().unwrap().to_text();
        for (name, values, origin, expected) in [
            (
                "store",
                ["etcd://user:pass@host:1/p"].as_slice(),
                Origin::Flag,
                Some("etcd://...@host:1/p"),
            ),
            (
                "allow-path",
                &["/a", "https://h/x?X-Amz-Signature=1"],
                Origin::Flag,
                Some("/a, https://h/x?..."),
            ),
            ("key", &["a.key"], Origin::Flag, Some("a.key")),
            ("key", &[key.as_str()], Origin::Flag, Some(HIDDEN)),
            (
                "key",
                &[],
                Origin::OwnVariable("MILLSTREAM_KEY".to_owned()),
                Some(HIDDEN),
            ),
            ("key", &[], Origin::Default, None),
        ] {
            let shown = shown(&setting(name, values, origin));
            assert_eq!(shown.value.as_deref(), expected, "{name}");
        }
    }
}
