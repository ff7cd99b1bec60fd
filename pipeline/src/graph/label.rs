//! Operations as short text for people.
//!
//! Owns the truncation of long text. Refuses to know any operation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::{self, Write};

/// The maximum number of characters of a label; longer parameters are truncated.
pub(crate) const LABEL_CHARS_MAX: usize = 96;

/// Returns the name, followed by the parameters in brackets if there are any.
pub(crate) fn label(name: &str, parameters: &str) -> String {
    let mut label = Cut::default();
    // Writing fails only if the text is truncated, which is intended.
    let _ = label.write_str(name);
    if !parameters.is_empty() {
        let _ = write!(label, "({parameters})");
    }
    label.0
}

/// Returns the fields of a struct as its derived `Debug` prints them, without fields that are `None`.
pub(crate) fn parameters(value: &dyn fmt::Debug) -> String {
    let mut all = Cut::default();
    let _ = write!(all, "{value:?}");
    fields(&all.0)
}

/// Returns the text inside the first braces, where derived `Debug` prints the parameters.
fn fields(debug: &str) -> String {
    let Some((_, inside)) = debug.split_once('{') else {
        return String::new();
    };
    let mut depth = 1;
    let end = inside.find(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        depth == 0
    });
    // Truncated parameters have no closing brace.
    let inside = inside[..end.unwrap_or(inside.len())].trim();
    let kept = inside.split(", ").filter(|field| !field.ends_with(": None"));
    kept.collect::<Vec<_>>().join(", ")
}

/// Text that is truncated at [`LABEL_CHARS_MAX`] characters.
#[derive(Default)]
struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LABEL_CHARS_MAX.saturating_sub(self.0.chars().count());
        if text.chars().count() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.extend(text.chars().take(room));
        if !self.0.ends_with('…') {
            self.0.push('…');
        }
        Err(fmt::Error)
    }
}
