//! Splits Rust source into code, comments and literals. Does not know the meaning of code or comments.
//!
//! Invariant: the code part and the comment part have the length and the line breaks of the source. An offset
//! or a line number thus means the same in both parts.

/// A source file, separated into its code and its comments. Each part replaces the other part with spaces.
#[derive(Debug)]
pub(crate) struct Lexed {
    /// The code alone. Comments, and the contents of string and character literals, are spaces.
    pub(crate) code: String,
    /// The comments alone, including doc comments.
    pub(crate) comments: String,
}

/// One word or punctuation mark of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The token's text: an identifier, a keyword, a number, `::`, or a single other character.
    pub(crate) text: &'a str,
    /// The line of the token, from 1.
    pub(crate) line: usize,
}

impl Lexed {
    /// Splits a whole file. An unclosed comment or literal extends to the end of the file.
    pub(crate) fn new(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut code = blank(bytes);
        let mut comments = blank(bytes);
        let mut at = 0;
        while at < bytes.len() {
            let (kind, end) = piece(source, at);
            let target = match kind {
                Kind::Code => Some(&mut code),
                Kind::Comment => Some(&mut comments),
                Kind::Literal => None,
            };
            if let Some(target) = target {
                target[at..end].copy_from_slice(&bytes[at..end]);
            }
            at = end;
        }
        // Each piece ends between characters, so the copied bytes are whole characters.
        let text = |bytes| String::from_utf8(bytes).expect("pieces end at character boundaries");
        Self {
            code: text(code),
            comments: text(comments),
        }
    }

    /// Returns the tokens of the code, in order.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let code = &self.code;
        let (mut tokens, mut line, mut at) = (Vec::new(), 1, 0);
        while let Some(first) = code[at..].chars().next() {
            let rest = &code[at..];
            let len = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if first == '\n' {
                line += 1;
            } else if !first.is_whitespace() {
                tokens.push(Token {
                    text: &rest[..len],
                    line,
                });
            }
            at += len;
        }
        tokens
    }
}

/// Returns whether a character can be a part of an identifier or a number.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Returns the kind and the end of the piece that starts at `at`. A piece of code is one character or one
/// identifier.
fn piece(source: &str, at: usize) -> (Kind, usize) {
    let rest = &source[at..];
    let first = rest.chars().next().expect("the caller stops at the end");
    if rest.starts_with("//") {
        return (Kind::Comment, at + rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, at + block_comment(rest));
    }
    match first {
        '"' => (Kind::Literal, at + quoted(rest)),
        '\'' => match character(rest) {
            Some(len) => (Kind::Literal, at + len),
            None => (Kind::Code, at + 1),
        },
        _ if is_word(first) => word(rest).map_or_else(
            || (Kind::Code, at + rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            |len| (Kind::Literal, at + len),
        ),
        _ => (Kind::Code, at + first.len_utf8()),
    }
}

/// Returns the length of the prefixed literal (`b'x'`, `c"x"`, `r#"x"#`) at the start of the text, or `None`
/// for other texts.
fn word(rest: &str) -> Option<usize> {
    for prefix in ["r", "br", "cr"] {
        if let Some(tail) = rest.strip_prefix(prefix) {
            let hashes = tail.len() - tail.trim_start_matches('#').len();
            if tail[hashes..].starts_with('"') {
                let close = format!("\"{}", "#".repeat(hashes));
                let body = &tail[hashes + 1..];
                let end = body.find(&close).map_or(body.len(), |found| found + close.len());
                return Some(prefix.len() + hashes + 1 + end);
            }
        }
    }
    for prefix in ["b", "c"] {
        let tail = rest.strip_prefix(prefix).unwrap_or_default();
        if tail.starts_with('"') {
            return Some(1 + quoted(tail));
        }
        if tail.starts_with('\'') {
            return character(tail).map(|len| 1 + len);
        }
    }
    None
}

/// Returns the length of the character literal at a quote mark, or `None` if the mark begins a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next();
        return chars.find(|&(_, c)| c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|&(_, c)| c == '\'').map(|(at, _)| at + 1)
}

fn quoted(rest: &str) -> usize {
    let mut escaped = true; // skips the opening mark
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        match tail {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|&byte| if byte == b'\n' { byte } else { b' ' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        Lexed::new(source)
            .tokens()
            .iter()
            .map(|token| token.text.to_owned())
            .collect()
    }

    #[test]
    fn comments_hide_code_and_nest() {
        assert_eq!(words("a // b { c\nd /* e /* f */ g */ h /// i"), ["a", "d", "h"]);
        assert_eq!(Lexed::new("a /* é */ b").comments.trim(), "/* é */");
    }

    #[test]
    fn literals_hide_braces_quotes_and_comment_marks() {
        for literal in [
            r#""{ // \" }""#,
            r##"r"\""##,
            r###"r#"a " }"#"###,
            r###"br##"}"# "##"###,
            r#"b"}\\""#,
            "c\"}\"",
            "'{'",
            r"'\''",
            r"'\u{7d}'",
            "'\"'",
            "b'{'",
            "'é'",
        ] {
            assert_eq!(
                words(&format!("x({literal})y")),
                ["x", "(", ")", "y"],
                "{literal}"
            );
        }
    }

    #[test]
    fn lifetimes_labels_and_raw_names_are_code() {
        assert_eq!(words("&'a str"), ["&", "'", "a", "str"]);
        assert_eq!(words("'outer: loop {}"), ["'", "outer", ":", "loop", "{", "}"]);
        assert_eq!(words("r#type b c br"), ["r", "#", "type", "b", "c", "br"]);
        assert_eq!(
            words("f::<'a, 'b>(x)"),
            ["f", "::", "<", "'", "a", ",", "'", "b", ">", "(", "x", ")"]
        );
    }

    #[test]
    fn lines_survive_what_is_blanked() {
        let lexed = Lexed::new("/* a\nb */ \"c\nd\" e\n// f\ng");
        let found: Vec<_> = lexed
            .tokens()
            .iter()
            .map(|token| (token.text.to_owned(), token.line))
            .collect();
        assert_eq!(found, [("e".to_owned(), 3), ("g".to_owned(), 5)]);
    }

    #[test]
    fn what_is_never_closed_runs_to_the_end() {
        for source in ["a \"b", "a /* b /* */", "a r#\"b\"", "a 'b", "a b'\\"] {
            assert_eq!(words(source)[0], "a", "{source}");
        }
    }
}
