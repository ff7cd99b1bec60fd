//! Lines of figures on standard output.

use std::io::Write;

/// Prints a line.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

/// Prints cells right-aligned in columns of 14.
///
/// # Errors
/// The errors of [`say`].
pub(crate) fn row(cells: &[String]) -> Result<(), String> {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>14}")).collect();
    say(&cells.join(" "))
}

/// Prints the names of columns.
///
/// # Errors
/// The errors of [`say`].
pub(crate) fn header(names: &[&str]) -> Result<(), String> {
    row(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}
