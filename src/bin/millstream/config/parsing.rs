//! The flags that a command sees: those of the command line, and those that variables and the settings file
//! add.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, FromArgMatches};

use super::file::{SettingsFile, commands, settings};
use super::layers::{Origin, Setting, is_read_here, layered, variable};
use crate::args::Cli;
use crate::console;

/// The exit code of wrong flags, which is that of clap.
const WRONG_FLAGS: i32 = 2;

/// The settings with which this process was started.
static IN_FORCE: OnceLock<Vec<Setting>> = OnceLock::new();

/// The reason why a command cannot start.
#[derive(Debug)]
pub(super) enum Wrong {
    /// A variable or the settings file is wrong.
    Settings(String),
    /// The flags are wrong, or only help is asked for. The note names the origin of a flag that the command
    /// line does not contain.
    Flags(clap::Error, Option<String>),
}

impl Wrong {
    /// Prints the reason, and ends the process.
    pub(super) fn exit(self) -> ! {
        match self {
            Wrong::Settings(message) => console::error(&message),
            Wrong::Flags(error, None) => error.exit(),
            Wrong::Flags(error, Some(note)) => {
                let _ = error.print();
                console::note(&note);
            }
        }
        std::process::exit(WRONG_FLAGS)
    }
}

/// Parses the command line together with variables and the settings file. Ends the process if the flags or
/// settings are wrong, or if only help is asked for.
pub(crate) fn parse() -> Cli {
    let line: Vec<OsString> = std::env::args_os().collect();
    let (cli, set) = parsed(line).unwrap_or_else(|wrong| wrong.exit());
    IN_FORCE.get_or_init(|| set);
    cli
}

/// Returns the settings with which this process was started.
pub(super) fn in_force() -> &'static [Setting] {
    IN_FORCE.get().map_or(&[], Vec::as_slice)
}

/// Parses a command line with the settings that it does not contain, and returns all settings.
pub(super) fn parsed(line: Vec<OsString>) -> Result<(Cli, Vec<Setting>), Wrong> {
    let set = of_line(&line).map_err(Wrong::Settings)?;
    let parsed = Cli::command().try_get_matches_from(with_settings(line, &set));
    match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => Ok((cli, set)),
        Err(error) => {
            let note = origin_of_error(&error, &set);
            Err(Wrong::Flags(error, note))
        }
    }
}

/// Returns the settings of the command in a command line. Returns no settings if the line names no command
/// that has settings.
pub(super) fn of_line(line: &[OsString]) -> Result<Vec<Setting>, String> {
    // A line that only asks for help has no matches.
    let lenient = Cli::command().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(line) else {
        return Ok(Vec::new());
    };
    let Some((name, own)) = matches.subcommand() else {
        return Ok(Vec::new());
    };
    let root = root();
    let known = commands(&root);
    let Some(command) = known.into_iter().find(|command| command.get_name() == name) else {
        return Ok(Vec::new());
    };
    let path = matches.get_one::<PathBuf>("config");
    let file = path.map(|path| SettingsFile::read(path, &root)).transpose()?;
    layered(command, own, |name| std::env::var_os(name), file.as_ref())
}

/// Returns the command line with all commands.
pub(super) fn root() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

/// Returns the names of the variables that set flags of any command. A command that starts servers removes
/// these variables from their environment, because it passes the settings itself.
pub(crate) fn settings_variables() -> Vec<String> {
    let root = root();
    let flags = commands(&root);
    let flags = flags.iter().flat_map(|command| settings(command));
    let added = flags.filter(|flag| is_read_here(flag));
    let mut names: Vec<String> = added.filter_map(|flag| flag.get_long()).map(variable).collect();
    names.push(variable("config"));
    names.sort_unstable();
    names.dedup();
    names
}

/// Adds the settings of variables and the file to a command line, before the arguments after `--`.
fn with_settings(mut line: Vec<OsString>, set: &[Setting]) -> Vec<OsString> {
    let added = set.iter().filter(|setting| setting.origin.is_added());
    let flags: Vec<OsString> = added.flat_map(flags_of).map(OsString::from).collect();
    let end = line.iter().position(|argument| argument == OsStr::new("--"));
    let end = end.unwrap_or(line.len());
    line.splice(end..end, flags);
    line
}

fn flags_of(setting: &Setting) -> Vec<String> {
    let name = &setting.name;
    if setting.is_switch {
        let first = setting.values.first().map_or("", String::as_str);
        let count = if first == "true" {
            1
        } else {
            first.parse().unwrap_or(0)
        };
        return vec![format!("--{name}"); count];
    }
    let values = setting.values.iter();
    values.map(|value| format!("--{name}={value}")).collect()
}

/// Returns the origin of the setting that an error is about, if the command line does not contain it.
fn origin_of_error(error: &clap::Error, set: &[Setting]) -> Option<String> {
    let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let name = argument.trim_start_matches('-').split([' ', '=']).next()?;
    let setting = set.iter().find(|setting| setting.name == name)?;
    match &setting.origin {
        Origin::Variable(_) | Origin::File(_) => {
            Some(format!("`{name}` comes from the {}", setting.origin.text()))
        }
        Origin::Flag | Origin::OwnVariable(_) | Origin::Default => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, values: &[&str], is_switch: bool, origin: Origin) -> Setting {
        Setting {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            added: Vec::new(),
            is_switch,
            is_repeatable: values.len() > 1,
            origin,
        }
    }

    #[test]
    fn settings_stand_before_the_rest_arguments() {
        let file = || Origin::File("a.toml".to_owned());
        let set = [
            setting("bind", &["x"], false, Origin::Flag),
            setting("allow-path", &["-a", "b"], false, file()),
            setting("fast", &["true"], true, file()),
            setting("slow", &["false"], true, file()),
            setting("verbose", &["2"], true, file()),
        ];
        let line = ["millstream", "up", "--bind=x", "--", "--threads", "2"];
        let line = line.iter().map(OsString::from).collect();
        assert_eq!(
            with_settings(line, &set),
            [
                "millstream",
                "up",
                "--bind=x",
                "--allow-path=-a",
                "--allow-path=b",
                "--fast",
                "--verbose",
                "--verbose",
                "--",
                "--threads",
                "2"
            ]
        );
    }

    #[test]
    fn names_of_settings_are_unique_variables() {
        let names = settings_variables();
        for here in [
            "MILLSTREAM_LIVENESS_S",
            "MILLSTREAM_ADMIN_TOKEN_FILE",
            "MILLSTREAM_CONFIG",
        ] {
            assert!(names.contains(&here.to_owned()), "{names:?}");
        }
        let python = [
            "MILLSTREAM_PYTHON",
            "MILLSTREAM_PYTHON_ENV",
            "MILLSTREAM_ISOLATION",
        ];
        for elsewhere in [&python[..], &["MILLSTREAM_KEY", "MILLSTREAM_REVOKED"]].concat() {
            assert!(!names.contains(&elsewhere.to_owned()), "{names:?}");
        }
    }
}
