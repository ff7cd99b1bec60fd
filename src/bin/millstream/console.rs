//! The output of commands: results go to standard output, all other messages to standard error.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::SystemTime;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The form of all messages on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object in each line, with timestamp, level, target and fields.
    Json,
}

/// The form that the command's flags select.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Starts the log on standard error. The level is `warn`, or the level that `-v` and `RUST_LOG` select.
pub(crate) fn start_logging(verbose: u8, format: LogFormat) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // https://no-color.org
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_coloured = std::io::stderr().is_terminal() && !is_plain;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match FORMAT.get_or_init(|| format) {
        LogFormat::Text => log.with_ansi(is_coloured).init(),
        LogFormat::Json => log.json().init(),
    }
}

/// Prints a line of results. Ignores a closed pipe, because the reader of the pipe needs no more results.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line of information to standard error.
pub(crate) fn note(text: &str) {
    message("INFO", text);
}

/// Prints a line of a child process to standard error, with the name of the child.
pub(crate) fn relay(child: &str, line: &str) {
    match FORMAT.get() {
        // The child writes JSON as well.
        Some(LogFormat::Json) if line.starts_with('{') => _ = writeln!(std::io::stderr().lock(), "{line}"),
        Some(LogFormat::Json | LogFormat::Text) | None => note(&format!("{child}: {line}")),
    }
}

/// Prints the reason why the command failed.
pub(crate) fn error(text: &str) {
    message("ERROR", &format!("millstream: {text}"));
}

fn message(level: &str, text: &str) {
    let line = match FORMAT.get() {
        Some(LogFormat::Json) => json_line(level, text),
        Some(LogFormat::Text) | None => text.to_owned(),
    };
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns a message with the fields that the log's own lines have.
fn json_line(level: &str, text: &str) -> String {
    let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let fields = serde_json::json!({ "message": text });
    serde_json::json!({ "timestamp": now, "level": level, "fields": fields, "target": "millstream" })
        .to_string()
}

/// Returns a number of bytes as text, in the unit that fits its size.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1000.0;
        unit = larger;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{scaled:.1} {unit}")
    }
}

/// Returns a time for one element as text, in the unit that fits its size; `-` for an unknown time.
pub(crate) fn time_text(ns: Option<u64>) -> String {
    match ns {
        Some(ns) if ns >= 1_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.1} µs", ns as f64 / 1e3),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes_text, json_line, time_text};

    #[test]
    fn times_are_shown_in_fitting_units() {
        let told = [None, Some(1_500), Some(2_500_000)].map(time_text);
        assert_eq!(told, ["-", "1.5 µs", "2.5 ms"]);
    }

    #[test]
    fn messages_in_json_are_one_line() {
        let line = json_line("ERROR", "two\nlines and \"quotes\"");
        assert!(!line.contains('\n'), "{line}");
        let found: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(found["fields"]["message"], "two\nlines and \"quotes\"");
        assert_eq!(
            (&found["level"], &found["target"]),
            (&"ERROR".into(), &"millstream".into())
        );
        assert!(found["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn bytes_are_shown_in_fitting_units() {
        let told = [0, 999, 1000, 1_500_000, u64::MAX].map(bytes_text);
        assert_eq!(told, ["0 B", "999 B", "1.0 kB", "1.5 MB", "18446744.1 TB"]);
    }
}
