//! The settings of a process that its admin port shows.

use serde_json::{Value, json};

/// A setting in force, such as a flag of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name, such as `--bind`.
    pub name: String,
    /// The value, or `None` if the setting is off. It must be no secret.
    pub value: Option<String>,
    /// The origin of the value, such as `flag` or `default`.
    pub origin: String,
}

/// Returns settings as a JSON object.
pub(super) fn settings_json(settings: &[Setting]) -> Value {
    let rows = settings
        .iter()
        .map(|setting| json!({ "name": setting.name, "value": setting.value, "origin": setting.origin }));
    json!({ "version": env!("CARGO_PKG_VERSION"), "settings": rows.collect::<Vec<_>>() })
}
