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

/// Returns the fields of a struct as its derived `Debug` prints them, without fields that are `None` and
/// without `Some`.
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
    unwrapped(&kept.collect::<Vec<_>>().join(", "))
}

/// Removes the `Some` of fields, together with its brackets. Text in quotes stays as it is.
fn unwrapped(fields: &str) -> String {
    let mut kept = String::with_capacity(fields.len());
    // Whether each open bracket is left out.
    let mut open = Vec::new();
    let (mut is_quoted, mut is_escaped) = (false, false);
    for letter in fields.chars() {
        let is_left_out = match letter {
            '(' if !is_quoted => {
                let is_some = kept.ends_with(": Some");
                if is_some {
                    kept.truncate(kept.len() - "Some".len());
                }
                open.push(is_some);
                is_some
            }
            ')' if !is_quoted => open.pop() == Some(true),
            _ => false,
        };
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        if !is_left_out {
            kept.push(letter);
        }
    }
    kept
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_show_values_and_not_options() {
        for (fields, expected) in [
            ("seed: Some(7), fixed: false", "seed: 7, fixed: false"),
            (
                "sizes: Some([1, 2]), pad: (1, Some(2))",
                "sizes: [1, 2], pad: (1, Some(2))",
            ),
            (
                "inner: Some(Pair { a: Some((1, 2)) })",
                "inner: Pair { a: (1, 2) }",
            ),
            (
                "name: Some(\"ž)\\\": Some(\\\\\"), last: Some(1)",
                "name: \"ž)\\\": Some(\\\\\", last: 1",
            ),
            ("cut: Some(1…", "cut: 1…"),
        ] {
            assert_eq!(unwrapped(fields), expected);
        }
    }

    #[test]
    fn absent_values_are_left_out() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only printed")]
        struct Fields {
            seed: Option<u64>,
            name: Option<&'static str>,
        }
        let value = Fields {
            seed: Some(7),
            name: None,
        };
        assert_eq!(parameters(&value), "seed: 7");
    }
}
