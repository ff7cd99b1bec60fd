//! `millstream config show`: the settings of a command with their origins.

use std::ffi::OsString;

use clap::error::ErrorKind;
use toml::{Table, Value};

use super::args::{ConfigArgs, ConfigCommand, ShowArgs};
use super::file::{commands, text};
use super::layers::{Origin, Setting};
use super::parsing::{Wrong, of_line, parsed, root};
use super::shown::{is_hidden, origin_text, texts};
use crate::console::say;

/// Runs the command. `config` is the path of the settings file, as this command's own flag or variable names
/// it.
pub(crate) fn run(args: &ConfigArgs, config: Option<&std::path::Path>) -> Result<(), String> {
    let ConfigCommand::Show(args) = &args.command;
    let mut line = vec![OsString::from("millstream")];
    if let Some(path) = config {
        line.extend([OsString::from("--config"), path.as_os_str().to_owned()]);
    }
    let rest = args.line.iter().skip_while(|argument| *argument == "--");
    line.extend(rest.cloned());
    if args.line.is_empty() {
        show_all(&line, args)
    } else {
        show_one(&line, args)
    }
}

/// Prints all settings of one command.
fn show_one(line: &[OsString], args: &ShowArgs) -> Result<(), String> {
    let name = args.line.iter().find(|argument| *argument != "--");
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    if !commands(&root()).iter().any(|command| command.get_name() == name) {
        return Err(format!(
            "expected a command that has settings, such as `dispatcher` or `worker`, found `{name}`"
        ));
    }
    say(&section(&name, &checked(line)?, args.origin).join("\n"));
    Ok(())
}

/// Prints for each command the settings that differ from the defaults.
fn show_all(line: &[OsString], args: &ShowArgs) -> Result<(), String> {
    let mut sections = Vec::new();
    for command in commands(&root()) {
        let of_command = line.iter().cloned().chain([OsString::from(command.get_name())]);
        let mut set = checked(&of_command.collect::<Vec<_>>())?;
        set.retain(|setting| setting.origin != Origin::Default || !setting.added.is_empty());
        if !set.is_empty() {
            sections.push(section(command.get_name(), &set, args.origin).join("\n"));
        }
    }
    if sections.is_empty() {
        sections.push("# Neither a settings file nor a variable sets anything.".to_owned());
    }
    say(&sections.join("\n\n"));
    Ok(())
}

/// Returns the settings of a command line. Ends the process as the command would, if a flag or a setting is
/// wrong. Flags that the command needs may be missing.
fn checked(line: &[OsString]) -> Result<Vec<Setting>, String> {
    match parsed(line.to_vec()) {
        Ok((_, set)) => Ok(set),
        Err(Wrong::Flags(error, _)) if error.kind() == ErrorKind::MissingRequiredArgument => of_line(line),
        Err(wrong) => wrong.exit(),
    }
}

/// Returns the lines of a command's section. A setting without a value is a comment.
fn section(command: &str, settings: &[Setting], with_origin: bool) -> Vec<String> {
    let mut lines = vec![format!("[{command}]")];
    for setting in settings {
        let mut line = match value_of(setting) {
            Some(value) if is_hidden(setting) => format!("# {} = {value}", setting.name),
            Some(value) => format!("{} = {value}", setting.name),
            None => format!("# {} has no value", setting.name),
        };
        if with_origin {
            let origin = origin_text(setting);
            line = format!("{line:<48} # {origin}");
        }
        lines.push(line);
    }
    lines
}

/// Returns the value of a setting as TOML, without secrets.
fn value_of(setting: &Setting) -> Option<String> {
    let values = texts(setting);
    let mut values = values.iter().map(|value| literal(value, setting.is_switch));
    if setting.is_repeatable {
        return Some(format!("[{}]", values.collect::<Vec<_>>().join(", ")));
    }
    values.next()
}

/// Returns a value as TOML: as a string, unless the file would yield the same text without quotes.
fn literal(value: &str, is_switch: bool) -> String {
    let is_bare = |table: Table| {
        let read = table.get("key").map(text);
        read.is_some_and(|read| read.as_deref() == Ok(value))
    };
    let is_number = value.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    if is_switch || is_number && format!("key = {value}").parse().is_ok_and(is_bare) {
        value.to_owned()
    } else {
        Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literals_of_toml() {
        for (value, text) in [
            ("1", "1"),
            ("0.5", "0.5"),
            ("127.0.0.1", "\"127.0.0.1\""),
            ("a\"b", "'a\"b'"),
            ("inf", "\"inf\""),
            ("007", "\"007\""),
            ("1.", "\"1.\""),
            ("+5", "\"+5\""),
            ("-5", "-5"),
            ("1.10", "\"1.10\""),
            ("1_000", "\"1_000\""),
            ("2020-01-01", "\"2020-01-01\""),
        ] {
            assert_eq!(literal(value, false), text);
        }
    }
}
