//! The settings of a process that its admin port shows.

use serde::Serialize;

/// A setting in force, such as a flag of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The name, such as `--bind`.
    pub name: String,
    /// The value, or `None` if the setting is off. It must be no secret.
    pub value: Option<String>,
    /// The origin of the value, such as `flag` or `default`.
    pub origin: String,
}

/// The settings of a process.
#[derive(Serialize)]
pub(super) struct SettingsDocument<'s> {
    version: &'static str,
    settings: &'s [Setting],
}

impl<'s> SettingsDocument<'s> {
    pub(super) fn new(settings: &'s [Setting]) -> SettingsDocument<'s> {
        SettingsDocument {
            version: env!("CARGO_PKG_VERSION"),
            settings,
        }
    }
}
