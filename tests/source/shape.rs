//! Rules for the shape of one source file: lengths, the first line, tables of contents, attributes and
//! `unsafe`.

use super::lexer::{Lexed, Token, is_word};
use super::tree::{File, Finding};

/// The maximum length of a file, in lines.
pub(crate) const FILE_LINES_MAX: usize = 600;
/// The maximum length of a function, in lines from `fn` to the closing brace.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// The number of lines from `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// Finds files of more than [`FILE_LINES_MAX`] lines, and functions of more than [`FUNCTION_LINES_MAX`].
pub(crate) fn lengths(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let long_file = (lines > FILE_LINES_MAX).then(|| {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split the file by its types");
        Finding::new(&file.path, 0, "file length", what)
    });
    let long_functions = functions(&Lexed::new(&file.text))
        .into_iter()
        .filter_map(|function| {
            let Function { name, line, lines } = function;
            let what =
                || format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}: split the function");
            (lines > FUNCTION_LINES_MAX).then(|| Finding::new(&file.path, line, "function length", what()))
        });
    long_file.into_iter().chain(long_functions).collect()
}

/// Finds a file that does not open with `//!`.
pub(crate) fn opening(file: &File) -> Vec<Finding> {
    let opened = file
        .text
        .lines()
        .next()
        .is_some_and(|line| line.trim_end().len() > 3 && line.starts_with("//!"));
    let what = "the first line is not `//!`: state the purpose of the file";
    if opened {
        Vec::new()
    } else {
        vec![Finding::new(&file.path, 1, "opening", what)]
    }
}

/// Finds function bodies and glob re-exports in `lib.rs` and `mod.rs`. `lib.rs` and `mod.rs` may only declare
/// modules, re-export names, and explain.
pub(crate) fn table_of_contents(file: &File) -> Vec<Finding> {
    let lexed = Lexed::new(&file.text);
    let bodies = functions(&lexed).into_iter().map(|function| {
        let what = format!(
            "`{}` has a body: move the function to another file",
            function.name
        );
        Finding::new(&file.path, function.line, "table of contents", what)
    });
    let tokens = lexed.tokens();
    let globs = tokens
        .windows(2)
        .filter(|pair| pair[0].text == "::" && pair[1].text == "*")
        .map(|pair| {
            Finding::new(
                &file.path,
                pair[0].line,
                "table of contents",
                "a glob re-export: name each re-exported item",
            )
        });
    bodies.chain(globs).collect()
}

/// Returns the lines with the keyword `unsafe`.
pub(crate) fn unsafe_lines(file: &File) -> Vec<usize> {
    let lexed = Lexed::new(&file.text);
    lexed
        .tokens()
        .iter()
        .filter(|token| token.text == "unsafe")
        .map(|token| token.line)
        .collect()
}

/// Returns whether an inner attribute denies the clocks, sockets and randomness that `clippy.toml` lists.
pub(crate) fn is_denied_the_world(file: &File) -> bool {
    let code: String = Lexed::new(&file.text).code.split_whitespace().collect();
    code.split("#![deny(")
        .skip(1)
        .filter_map(|rest| rest.split(")]").next())
        .any(|lints| {
            let has = |name| lints.split(',').any(|lint| lint == name);
            has("clippy::disallowed_methods") && has("clippy::disallowed_types")
        })
}

/// Returns every function with a body, including nested functions and functions in macros.
pub(crate) fn functions(lexed: &Lexed) -> Vec<Function> {
    let tokens = lexed.tokens();
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let named = pair[1].text.starts_with(|c: char| is_word(c) || c == '$');
        if pair[0].text != "fn" || !named {
            continue; // `fn(u8)` is a type, not a function
        }
        let Some(open) = body(&tokens[at..]).map(|open| at + open) else {
            continue;
        };
        let close = closing(&tokens, open);
        found.push(Function {
            name: pair[1].text.to_owned(),
            line: pair[0].line,
            lines: tokens[close].line - pair[0].line + 1,
        });
    }
    found
}

/// Returns the index of the token that opens a function's body, counted from `fn`. Returns `None` for a
/// declaration that ends in `;`.
fn body(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            ";" if depth == 0 => return None,
            // A brace directly after `<` encloses a constant argument, not a body.
            "{" if depth == 0 && tokens[at - 1].text == "<" => depth += 1,
            "}" => depth = depth.checked_sub(1)?,
            "{" if depth == 0 => return Some(at),
            "{" => depth += 1,
            _ => {}
        }
    }
    None
}

fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: impl Into<String>) -> File {
        File {
            path: path.to_owned(),
            text: text.into(),
        }
    }

    fn found(text: &str) -> Vec<(String, usize)> {
        functions(&Lexed::new(text))
            .into_iter()
            .map(|function| (function.name, function.lines))
            .collect()
    }

    #[test]
    fn overlong_files_and_functions_are_found() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines - 2));
        assert_eq!(lengths(&file("a.rs", function(FUNCTION_LINES_MAX))), []);
        assert_eq!(
            lengths(&file("a.rs", function(FUNCTION_LINES_MAX + 1)))[0].rule,
            "function length"
        );
        assert_eq!(lengths(&file("a.rs", "//\n".repeat(FILE_LINES_MAX))), []);
        assert_eq!(
            lengths(&file("a.rs", "//\n".repeat(FILE_LINES_MAX + 1)))[0].rule,
            "file length"
        );
    }

    #[test]
    fn functions_end_past_quoted_braces() {
        let hidden =
            "fn f(x: [u8; { 3 }]) -> T<{ 4 }> {\n a('}', \"}\", r#\"}\"#); // }\n /* } */\n}\nfn g() {}";
        assert_eq!(found(hidden), [("f".to_owned(), 4), ("g".to_owned(), 1)]);
        assert_eq!(
            found("fn f()\nwhere\n T: Fn(u8) -> fn(u8),\n{\n fn g() {}\n}")[0],
            ("f".to_owned(), 6)
        );
        assert_eq!(
            found("trait T { fn f(&self, x: fn(u8)); fn g(&self) {} }"),
            [("g".to_owned(), 1)]
        );
        assert_eq!(found("type F = fn(u8) -> u8; const X: &str = \"fn x() {\";"), []);
    }

    #[test]
    fn a_file_without_purpose_is_found() {
        assert_eq!(opening(&file("a.rs", "//! Owns it.\n")), []);
        for text in ["", "\n//! Late.\n", "// Plain.\n", "//!\n", "use a;\n//! Late.\n"] {
            assert_eq!(opening(&file("a.rs", text)).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn logic_in_a_parent_is_found() {
        let clean = "mod a;\npub use a::{B, C};\npub trait D { fn e(&self); }";
        assert_eq!(table_of_contents(&file("mod.rs", clean)), []);
        assert_eq!(
            table_of_contents(&file("mod.rs", "mod a;\nfn f() { }"))[0].line,
            2
        );
        assert_eq!(table_of_contents(&file("mod.rs", "pub use a::*;")).len(), 1);
    }

    #[test]
    fn unsafe_is_found_in_code_alone() {
        let text = "#![expect(unsafe_code)]\n// unsafe\n\"unsafe\";\nunsafe { }";
        assert_eq!(unsafe_lines(&file("a.rs", text)), [4]);
    }

    #[test]
    fn a_pure_module_needs_both_denials() {
        let denied = |text: &str| is_denied_the_world(&file("a.rs", text));
        assert!(denied(
            "//! A.\n#![deny(clippy::disallowed_methods, clippy::disallowed_types)]\n"
        ));
        assert!(!denied("#![deny(clippy::disallowed_methods)]\n"));
        assert!(!denied(
            "#![allow(clippy::disallowed_methods, clippy::disallowed_types)]\n"
        ));
        assert!(!denied(
            "// #![deny(clippy::disallowed_methods, clippy::disallowed_types)]\n"
        ));
    }
}
