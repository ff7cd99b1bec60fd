//! The settings file: its keys, checked against the flags of the commands.
//!
//! A key is the name of a flag without its dashes. A key in a section applies to the command of that name. A
//! key before the first section applies to all commands that have the flag.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

/// Minimum similarity of a suggestion to an unknown key, between 0 and 1.
const SIMILAR_FROM: f64 = 0.7;

/// Maximum size of a settings file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The commands that take no settings from a file or a variable: they print texts, or handle keys.
const WITHOUT_SETTINGS: [&str; 5] = ["completions", "config", "help", "key", "man"];

/// A settings file whose keys are all known.
#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    path: PathBuf,
    table: Table,
}

/// A setting in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub(super) values: Vec<String>,
    /// The section, or `None` for a key before the first section.
    pub(super) section: Option<String>,
}

impl SettingsFile {
    /// Reads a file. `root` is the built command line with all commands.
    pub(super) fn read(path: &Path, root: &Command) -> Result<Self, String> {
        let failed =
            |error: std::io::Error| format!("cannot read the settings file {}: {error}", path.display());
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > FILE_BYTES_MAX {
            let path = path.display();
            return Err(format!(
                "the settings file {path} has {size} bytes: expected at most {FILE_BYTES_MAX}"
            ));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(path, &text, root)
    }

    fn parse(path: &Path, text: &str, root: &Command) -> Result<Self, String> {
        let parsed = text.parse::<Table>();
        let table =
            parsed.map_err(|error| format!("{}: {}", path.display(), error.to_string().trim_end()))?;
        let file = Self {
            path: path.to_owned(),
            table,
        };
        file.check(root)?;
        Ok(file)
    }

    /// Returns the setting of a command's flag, if the file has one.
    pub(super) fn find(&self, command: &str, flag: &Arg) -> Result<Option<Found>, String> {
        let name = flag.get_long().unwrap_or_default();
        let of_command = self.table.get(command).and_then(Value::as_table);
        let (value, section) = match of_command.and_then(|section| section.get(name)) {
            Some(value) => (value, Some(command.to_owned())),
            None => match self.table.get(name) {
                Some(value) if !value.is_table() => (value, None),
                Some(_) | None => return Ok(None),
            },
        };
        let values = texts(value, flag).map_err(|reason| {
            let place = self.place(section.as_deref());
            format!("{place}: {name}: {reason}")
        })?;
        Ok(Some(Found { values, section }))
    }

    /// Returns the place of a key, for messages.
    pub(super) fn place(&self, section: Option<&str>) -> String {
        let path = self.path.display();
        match section {
            Some(section) => format!("{path} [{section}]"),
            None => path.to_string(),
        }
    }

    /// Checks that each section is a command, and each key a flag.
    fn check(&self, root: &Command) -> Result<(), String> {
        let commands = commands(root);
        for (key, value) in &self.table {
            if let Value::Table(section) = value {
                let Some(command) = commands.iter().find(|command| command.get_name() == key) else {
                    let names = commands.iter().map(|command| command.get_name());
                    return Err(self.unknown(None, &format!("section [{key}]"), key, names));
                };
                let names: Vec<&str> = settings(command).filter_map(Arg::get_long).collect();
                if let Some(key) = section.keys().find(|key| !names.contains(&key.as_str())) {
                    let place = Some(command.get_name());
                    return Err(self.unknown(place, &format!("key `{key}`"), key, names.into_iter()));
                }
            } else {
                let flags = commands.iter().flat_map(|command| settings(command));
                let names: Vec<&str> = flags.filter_map(Arg::get_long).collect();
                if !names.contains(&key.as_str()) {
                    return Err(self.unknown(None, &format!("key `{key}`"), key, names.into_iter()));
                }
            }
        }
        Ok(())
    }

    /// Returns the message about an unknown key or section, with the most similar known one.
    fn unknown<'a>(
        &self,
        section: Option<&str>,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> String {
        let place = self.place(section);
        match most_similar(name, known) {
            Some(similar) => format!("{place}: unknown {what}; did you mean `{similar}`?"),
            None => format!(
                "{place}: unknown {what}: expected the name of a flag without its dashes, or the name of a command as section"
            ),
        }
    }
}

/// Returns the commands that have settings. `root` is the built command line.
pub(super) fn commands(root: &Command) -> Vec<&Command> {
    let commands = root.get_subcommands();
    commands
        .filter(|command| !WITHOUT_SETTINGS.contains(&command.get_name()))
        .collect()
}

/// Returns the flags of a command that are settings: those with a long name that users see.
pub(super) fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let is_action = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        arg.get_long().is_some_and(|name| name != "config") && !arg.is_hide_set() && !is_action
    })
}

/// Returns whether a flag has no value on the command line.
pub(super) fn is_switch(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::SetTrue | ArgAction::Count)
}

fn most_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |other: &str| strsim::jaro_winkler(name, other);
    let best = known.max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(best) >= SIMILAR_FROM).then_some(best)
}

/// Converts a value of the file to the texts of the flag's values.
fn texts(value: &Value, flag: &Arg) -> Result<Vec<String>, String> {
    let is_repeatable = matches!(flag.get_action(), ArgAction::Append);
    match value {
        Value::Array(values) if is_repeatable => values.iter().map(text).collect(),
        Value::Array(_) => Err("expected one value, found an array".to_owned()),
        Value::Boolean(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Datetime(_)
        | Value::Table(_) => Ok(vec![text(value)?]),
    }
}

/// Returns a value as the text of a flag.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => Err(format!(
            "expected a string, a number or a boolean, found {}",
            value.type_str()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Command {
        let flags = [
            Arg::new("bind").long("bind"),
            Arg::new("path").long("allow-path").action(ArgAction::Append),
            Arg::new("fast").long("fast").action(ArgAction::SetTrue),
        ];
        let mut root = Command::new("test")
            .subcommand(Command::new("serve").args(flags))
            .subcommand(Command::new("key").arg(Arg::new("out").long("out")));
        root.build();
        root
    }

    fn parse(text: &str) -> Result<SettingsFile, String> {
        SettingsFile::parse(Path::new("a.toml"), text, &root())
    }

    #[test]
    fn unknown_keys_suggest_the_right_one() {
        let cases = [
            ("bnid = 1", "a.toml: unknown key `bnid`; did you mean `bind`?"),
            (
                "[serve]\nallow_path = []",
                "a.toml [serve]: unknown key `allow_path`; did you mean `allow-path`?",
            ),
            (
                "[server]",
                "a.toml: unknown section [server]; did you mean `serve`?",
            ),
            ("[key]\nout = 'x'", "a.toml: unknown section [key]: expected"),
            (
                "zzz = 1",
                "a.toml: unknown key `zzz`: expected the name of a flag",
            ),
        ];
        for (text, message) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        let error = parse("a = ").unwrap_err();
        assert!(error.starts_with("a.toml: TOML parse error at line 1"), "{error}");
    }

    #[test]
    fn sections_win_over_general_keys() {
        let root = root();
        let serve = root.find_subcommand("serve").unwrap();
        let file = parse("bind = 'x'\nfast = true\n[serve]\nbind = 3\nallow-path = ['a', 2]").unwrap();
        let find = |name: &str| {
            let flag = settings(serve)
                .find(|flag| flag.get_long() == Some(name))
                .unwrap();
            let found = file.find("serve", flag).unwrap().unwrap();
            (found.values.join("|"), found.section)
        };
        let of_serve = Some("serve".to_owned());
        assert_eq!(find("bind"), ("3".to_owned(), of_serve.clone()));
        assert_eq!(find("allow-path"), ("a|2".to_owned(), of_serve));
        assert_eq!(find("fast"), ("true".to_owned(), None));
    }

    #[test]
    fn values_of_a_wrong_kind_are_refused() {
        let root = root();
        let serve = root.find_subcommand("serve").unwrap();
        let file = parse("[serve]\nbind = ['a', 'b']\nallow-path = [[1]]\nfast = 2020-01-01").unwrap();
        for (name, message) in [
            ("bind", "a.toml [serve]: bind: expected one value, found an array"),
            (
                "allow-path",
                "a.toml [serve]: allow-path: expected a string, a number or a boolean, found array",
            ),
            (
                "fast",
                "a.toml [serve]: fast: expected a string, a number or a boolean, found datetime",
            ),
        ] {
            let flag = settings(serve)
                .find(|flag| flag.get_long() == Some(name))
                .unwrap();
            assert_eq!(file.find("serve", flag).unwrap_err(), message);
        }
    }
}
