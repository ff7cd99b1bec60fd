//! The value of each setting of a command, and its origin: a flag wins over a variable, a variable over the
//! settings file, and the file over the default.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::file::{SettingsFile, is_switch, settings};

/// The prefix of the variables.
const PREFIX: &str = "MILLSTREAM_";

/// The flag of the key, whose variable may contain the key itself.
const KEY: &str = "key";

/// The flag whose variable adds values to those of the flag.
const PYTHON_ENV: &str = "python-env";

/// The flags whose variables other parts of the program read, with rules of their own.
const READ_ELSEWHERE: [&str; 4] = ["isolation", KEY, "python", PYTHON_ENV];

/// A setting with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The name of the flag without its dashes.
    pub(super) name: String,
    /// The texts of the values: several for a repeated flag, none for a flag without a default.
    pub(super) values: Vec<String>,
    /// The values that a variable adds to those of the flag.
    pub(super) added: Vec<String>,
    pub(super) is_switch: bool,
    pub(super) is_repeatable: bool,
    pub(super) origin: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Flag,
    /// The variable with this name, which another part of the program reads.
    OwnVariable(String),
    /// The variable with this name, which this module reads.
    Variable(String),
    /// A key at this place of the settings file.
    File(String),
    Default,
}

impl Origin {
    /// Returns the origin in words.
    pub(super) fn text(&self) -> String {
        match self {
            Origin::Flag => "flag".to_owned(),
            Origin::OwnVariable(name) | Origin::Variable(name) => format!("variable {name}"),
            Origin::File(place) => format!("file {place}"),
            Origin::Default => "default".to_owned(),
        }
    }

    /// Returns whether this module must hand the value to the command.
    pub(super) fn is_added(&self) -> bool {
        matches!(self, Origin::Variable(_) | Origin::File(_))
    }
}

/// Returns the name of the variable that sets a flag.
pub(crate) fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}

/// Returns whether this module reads the variable of a flag, and adds the flag to the command line.
pub(super) fn is_read_here(flag: &Arg) -> bool {
    let is_elsewhere = flag.get_long().is_none_or(|name| READ_ELSEWHERE.contains(&name));
    flag.get_env().is_none() && !is_elsewhere
}

/// Returns all settings of a command. `matches` are those of the command line, `read` reads a variable, and
/// `file` is the settings file, if there is one.
pub(super) fn layered(
    command: &Command,
    matches: &ArgMatches,
    read: impl Fn(&str) -> Option<OsString>,
    file: Option<&SettingsFile>,
) -> Result<Vec<Setting>, String> {
    let mut found = Vec::new();
    for flag in settings(command) {
        found.push(setting(command, flag, matches, &read, file)?);
    }
    let explicit: Vec<String> = found
        .iter()
        .filter(|setting| {
            matches!(
                setting.origin,
                Origin::Flag | Origin::OwnVariable(_) | Origin::Variable(_)
            )
        })
        .map(|setting| setting.name.clone())
        .collect();
    // A flag replaces the file's settings that exclude it.
    found.retain(|setting| {
        !matches!(setting.origin, Origin::File(_)) || !is_excluded(command, &setting.name, &explicit)
    });
    Ok(found)
}

/// Returns whether one of the explicit settings excludes a setting.
fn is_excluded(command: &Command, name: &str, explicit: &[String]) -> bool {
    let of = |name: &str| command.get_arguments().find(|flag| flag.get_long() == Some(name));
    let excludes = |a: &Arg, b: &Arg| {
        let mut conflicts = command.get_arg_conflicts_with(a).into_iter();
        conflicts.any(|other| other.get_id() == b.get_id())
    };
    let are_alternatives = |a: &Arg, b: &Arg| {
        command.get_groups().any(|group| {
            let has = |flag: &Arg| group.get_args().any(|id| id == flag.get_id());
            a.get_id() != b.get_id() && has(a) && has(b) && !group.clone().is_multiple()
        })
    };
    let Some(flag) = of(name) else {
        return false;
    };
    let mut others = explicit.iter().filter_map(|name| of(name));
    others.any(|other| excludes(flag, other) || excludes(other, flag) || are_alternatives(flag, other))
}

fn setting(
    command: &Command,
    flag: &Arg,
    matches: &ArgMatches,
    read: &impl Fn(&str) -> Option<OsString>,
    file: Option<&SettingsFile>,
) -> Result<Setting, String> {
    let name = flag.get_long().unwrap_or_default().to_owned();
    let id = flag.get_id().as_str();
    let given = || -> Vec<String> {
        let raw = matches.get_raw(id).into_iter().flatten();
        raw.map(|value| value.to_string_lossy().into_owned()).collect()
    };
    let own_variable = flag.get_env().map(|name| name.to_string_lossy().into_owned());
    let (values, origin) = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => {
            let count = matches!(flag.get_action(), ArgAction::Count);
            let values = if count {
                vec![matches.get_count(id).to_string()]
            } else {
                given()
            };
            (values, Origin::Flag)
        }
        Some(ValueSource::EnvVariable) => (given(), Origin::OwnVariable(own_variable.unwrap_or_default())),
        _ => match read_elsewhere(&name, read) {
            Some(values) if name != PYTHON_ENV => (values, Origin::OwnVariable(variable(&name))),
            Some(_) | None => {
                let lower = lower(command, flag, &name, read, file)?;
                lower.unwrap_or_else(|| (defaults(flag), Origin::Default))
            }
        },
    };
    let added = match name.as_str() {
        PYTHON_ENV => read_elsewhere(&name, read).unwrap_or_default(),
        _ => Vec::new(),
    };
    Ok(Setting {
        added,
        is_switch: is_switch(flag),
        is_repeatable: matches!(flag.get_action(), ArgAction::Append),
        name,
        values,
        origin,
    })
}

/// Returns the values of a variable that another part of the program reads. The key's variable has no value,
/// because it may contain the key.
fn read_elsewhere(name: &str, read: &impl Fn(&str) -> Option<OsString>) -> Option<Vec<String>> {
    if !READ_ELSEWHERE.contains(&name) {
        return None;
    }
    let value = read(&variable(name)).filter(|value| !value.is_empty())?;
    let text = value.to_string_lossy();
    Some(match name {
        KEY => Vec::new(),
        PYTHON_ENV => text.split(',').map(|name| name.trim().to_owned()).collect(),
        _ => vec![text.into_owned()],
    })
}

/// Returns the value of a variable or of the file.
fn lower(
    command: &Command,
    flag: &Arg,
    name: &str,
    read: &impl Fn(&str) -> Option<OsString>,
    file: Option<&SettingsFile>,
) -> Result<Option<(Vec<String>, Origin)>, String> {
    let variable = variable(name);
    if is_read_here(flag)
        && let Some(value) = read(&variable).filter(|value| !value.is_empty())
    {
        let value = value
            .into_string()
            .map_err(|_| format!("the variable {variable} is not valid UTF-8"))?;
        let is_list = matches!(flag.get_action(), ArgAction::Append);
        let values = if is_list {
            value.split(',').map(str::to_owned).collect()
        } else {
            vec![value]
        };
        return Ok(Some((
            switched(flag, values, &variable)?,
            Origin::Variable(variable),
        )));
    }
    let Some(file) = file else {
        return Ok(None);
    };
    let Some(found) = file.find(command.get_name(), flag)? else {
        return Ok(None);
    };
    let place = file.place(found.section.as_deref());
    let values = switched(flag, found.values, &format!("{place}: {name}"))?;
    Ok(Some((values, Origin::File(place))))
}

/// Checks the value of a switch, and returns `true` or `false` for it, or a number for a repeated switch.
fn switched(flag: &Arg, values: Vec<String>, place: &str) -> Result<Vec<String>, String> {
    if !is_switch(flag) {
        return Ok(values);
    }
    let text = values
        .first()
        .map(|value| value.to_lowercase())
        .unwrap_or_default();
    if matches!(flag.get_action(), ArgAction::Count) {
        return match text.parse::<u8>() {
            Ok(count) => Ok(vec![count.to_string()]),
            Err(_) => Err(format!(
                "{place}: expected a number from 0 to 255, found `{text}`"
            )),
        };
    }
    match text.as_str() {
        "true" | "1" | "yes" | "on" => Ok(vec!["true".to_owned()]),
        "false" | "0" | "no" | "off" => Ok(vec!["false".to_owned()]),
        _ => Err(format!("{place}: expected true or false, found `{text}`")),
    }
}

fn defaults(flag: &Arg) -> Vec<String> {
    if is_switch(flag) {
        let is_counted = matches!(flag.get_action(), ArgAction::Count);
        return vec![if is_counted { "0" } else { "false" }.to_owned()];
    }
    let values = flag.get_default_values().iter();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::ArgGroup;

    use super::*;

    fn command() -> Command {
        let alternatives = ArgGroup::new("engine").args(["exec", "print"]);
        Command::new("serve").group(alternatives).args([
            Arg::new("exec").long("exec"),
            Arg::new("print").long("print").action(ArgAction::SetTrue),
            Arg::new("bind").long("bind").default_value("127.0.0.1:1"),
            Arg::new("store").long("store").conflicts_with("work_dir"),
            Arg::new("work_dir").long("work-dir"),
            Arg::new("path").long("allow-path").action(ArgAction::Append),
            Arg::new("fast").long("fast").action(ArgAction::SetTrue),
            Arg::new("key").long("key"),
        ])
    }

    /// Returns the settings whose origin is not the default, as text.
    fn found(line: &[&str], variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut command = command();
        command.build();
        let matches = command.clone().get_matches_from([&["serve"], line].concat());
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let settings = layered(&command, &matches, read, None)?;
        let set = settings
            .into_iter()
            .filter(|setting| setting.origin != Origin::Default);
        Ok(set
            .map(|setting| {
                format!(
                    "{} = {} ({})",
                    setting.name,
                    setting.values.join("|"),
                    setting.origin.text()
                )
            })
            .collect())
    }

    #[test]
    fn flags_win_over_variables() {
        let variables = [("MILLSTREAM_BIND", "b"), ("MILLSTREAM_ALLOW_PATH", "x,y")];
        assert_eq!(
            found(&["--bind", "a"], &variables).unwrap(),
            [
                "bind = a (flag)",
                "allow-path = x|y (variable MILLSTREAM_ALLOW_PATH)"
            ]
        );
    }

    #[test]
    fn switches_take_words_for_booleans() {
        assert_eq!(found(&[], &[("MILLSTREAM_FAST", "")]).unwrap(), [""; 0]);
        for (text, value) in [("1", "true"), ("ON", "true"), ("no", "false")] {
            let found = found(&[], &[("MILLSTREAM_FAST", text)]).unwrap();
            assert_eq!(found, [format!("fast = {value} (variable MILLSTREAM_FAST)")]);
        }
        let error = found(&[], &[("MILLSTREAM_FAST", "maybe")]).unwrap_err();
        assert_eq!(error, "MILLSTREAM_FAST: expected true or false, found `maybe`");
    }

    #[test]
    fn the_variable_of_the_key_is_not_shown() {
        let found = found(&[], &[("MILLSTREAM_KEY", "secret")]).unwrap();
        assert_eq!(found, ["key =  (variable MILLSTREAM_KEY)"]);
    }

    #[test]
    fn explicit_settings_exclude_their_opposites() {
        let mut command = command();
        command.build();
        let explicit = ["store".to_owned()];
        assert!(is_excluded(&command, "work-dir", &explicit));
        assert!(!is_excluded(&command, "bind", &explicit));
        let explicit = ["print".to_owned()];
        assert!(is_excluded(&command, "exec", &explicit));
        assert!(!is_excluded(&command, "print", &explicit));
    }
}
