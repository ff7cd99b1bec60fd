//! What commands print: results on standard output, everything else on standard error.

use std::io::Write;

use tracing_subscriber::EnvFilter;

/// Logs to standard error: warnings, or what `-v` and `RUST_LOG` ask for.
pub(crate) fn start_logging(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Prints a line of results. A closed pipe is no error: the reader has seen enough.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line about what is going on.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints why the command failed.
pub(crate) fn error(text: &str) {
    note(&format!("millstream: {text}"));
}
