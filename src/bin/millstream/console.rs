//! The output of commands: results go to standard output, all other messages to standard error.

use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Starts the log on standard error. The level is `warn`, or the level that `-v` and `RUST_LOG` select.
pub(crate) fn start_logging(verbose: u8) {
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
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured)
        .init();
}

/// Prints a line of results. Ignores a closed pipe, because the reader of the pipe needs no more results.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line of information to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints the reason why the command failed.
pub(crate) fn error(text: &str) {
    note(&format!("millstream: {text}"));
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

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn bytes_are_shown_in_fitting_units() {
        let told = [0, 999, 1000, 1_500_000, u64::MAX].map(bytes_text);
        assert_eq!(told, ["0 B", "999 B", "1.0 kB", "1.5 MB", "18446744.1 TB"]);
    }
}
