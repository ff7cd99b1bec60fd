//! Rules for comments: the first word of a doc comment, the length of clauses and lines, and retired terms of
//! the glossary.
//!
//! Owns the parsing of paragraphs and clauses. Does not check grammar, which reviewers check.

use super::lexer::Lexed;
use super::tree::{File, Finding};

/// The maximum number of words in a clause of a comment. A code span counts as one word.
const CLAUSE_WORDS_MAX: usize = 25;
/// The maximum length of a comment line, in characters.
const LINE_CHARS_MAX: usize = 110;
/// The forbidden first words of a doc comment, which need a context.
const FIRST_WORDS: [&str; 13] = [
    "As", "It", "Its", "Of", "So", "The same", "Them", "What", "Where", "Which", "Who", "Whom", "Whose",
];
/// The terms that the glossary has retired, each with the term to use instead.
const RETIRED: [(&str, &str); 4] = [
    (concat!("an", "ew"), "again"),
    (concat!("fare", "well"), "goodbye"),
    (concat!("sign of ", "life"), "heartbeat"),
    (concat!("who", "ever"), "the caller, the reader, the worker"),
];

/// The page that defines the terms of the project.
const GLOSSARY: &str = "docs/glossary.md";

/// Adjacent lines of one kind of comment, without the comment marks.
struct Paragraph<'a> {
    /// The number of the first line, from 1.
    line: usize,
    is_doc: bool,
    /// `true` if the paragraph opens its comment.
    is_first: bool,
    text: String,
    lines: Vec<&'a str>,
}

/// Finds doc comments that begin with a word that needs a context.
pub(crate) fn first_words(file: &File) -> Vec<Finding> {
    let lexed = Lexed::new(&file.text);
    let begins = |text: &str| {
        FIRST_WORDS.into_iter().find(|word| {
            let rest = text.strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '`'))
        })
    };
    let openings = paragraphs(&lexed);
    let openings = openings
        .iter()
        .filter(|paragraph| paragraph.is_doc && paragraph.is_first);
    openings
        .filter_map(|paragraph| begins(&paragraph.text).map(|word| (paragraph.line, word)))
        .map(|(line, word)| {
            let what = format!("begins with {word:?}: name the thing, or begin with the verb");
            Finding::new(&file.path, line, "first word", what)
        })
        .collect()
}

/// Finds clauses that are too long to be understood at first reading. A clause ends at a full stop, a colon
/// or a semicolon.
pub(crate) fn long_clauses(file: &File) -> Vec<Finding> {
    let lexed = Lexed::new(&file.text);
    let mut found = Vec::new();
    for paragraph in paragraphs(&lexed) {
        for clause in clauses(&paragraph.text) {
            let words = words(&clause);
            if words > CLAUSE_WORDS_MAX {
                let begin: String = clause.chars().take(40).collect();
                let what = format!("{words} words, at most {CLAUSE_WORDS_MAX}: \"{begin}…\"");
                found.push(Finding::new(&file.path, paragraph.line, "long sentence", what));
            }
        }
    }
    found
}

/// Finds comment lines that are wider than the maximum width of code. Rows of tables may be wider.
pub(crate) fn wide_lines(file: &File) -> Vec<Finding> {
    let lexed = Lexed::new(&file.text);
    let lines = lexed.comments.lines().zip(file.text.lines()).enumerate();
    lines
        .filter(|(_, (comment, line))| {
            marks(comment).is_some_and(|(_, text)| !text.starts_with('|'))
                && line.chars().count() > LINE_CHARS_MAX
        })
        .map(|(at, _)| {
            let what = format!("wrap the comment at {LINE_CHARS_MAX} columns");
            Finding::new(&file.path, at + 1, "wide comment", what)
        })
        .collect()
}

/// Finds retired terms in a text file. The glossary, which lists the terms, and the change log are exempt.
pub(crate) fn retired_terms(file: &File) -> Vec<Finding> {
    if [GLOSSARY, "CHANGELOG.md"].contains(&file.path.as_str()) {
        return Vec::new();
    }
    let stands = |line: &str, term: &str| {
        let line = line.to_lowercase();
        line.match_indices(term).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + term.len()..].chars().next();
            ![before, after].into_iter().flatten().any(char::is_alphanumeric)
        })
    };
    let lines = file.text.lines().enumerate();
    lines
        .flat_map(|(at, line)| {
            let terms = RETIRED.into_iter().filter(|(term, _)| stands(line, term));
            terms.map(move |(term, now)| (at + 1, format!("{term:?} is {now:?} here ({GLOSSARY})")))
        })
        .map(|(line, what)| Finding::new(&file.path, line, "retired term", what))
        .collect()
}

/// Returns the kind (`///`, `//!` or `//`) and the text of a line that contains only a comment.
fn marks(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let kind = ["///", "//!", "//"]
        .into_iter()
        .find(|kind| line.starts_with(kind))?;
    Some((kind, line[kind.len()..].trim()))
}

/// Splits comments into paragraphs, at empty lines, headings, list items, tables and code blocks.
fn paragraphs(lexed: &Lexed) -> Vec<Paragraph<'_>> {
    let mut found: Vec<Paragraph<'_>> = Vec::new();
    let (mut open, mut in_code, mut last_kind) = (false, false, "");
    for (at, (line, code)) in lexed.comments.lines().zip(lexed.code.lines()).enumerate() {
        // A comment at the end of a code line is a separate paragraph.
        open &= code.trim().is_empty();
        let Some((kind, text)) = marks(line) else {
            (open, in_code, last_kind) = (false, false, "");
            continue;
        };
        let is_first = kind != last_kind;
        last_kind = kind;
        if text.starts_with("```") {
            (open, in_code) = (false, !in_code);
            continue;
        }
        if in_code || text.is_empty() || text.starts_with(['#', '|']) || is_link(text) {
            open = false;
            continue;
        }
        let item = list_item(text);
        match found.last_mut().filter(|_| open && !is_first && item.is_none()) {
            Some(paragraph) => paragraph.lines.push(text),
            None => found.push(Paragraph {
                line: at + 1,
                is_doc: kind != "//",
                is_first,
                text: String::new(),
                lines: vec![item.unwrap_or(text)],
            }),
        }
        open = true;
    }
    for paragraph in &mut found {
        paragraph.text = paragraph.lines.join(" ");
    }
    found
}

/// The text of a list item without its mark.
fn list_item(text: &str) -> Option<&str> {
    let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let bulleted = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
    bulleted.or_else(|| (numbered.len() < text.len()).then(|| numbered.strip_prefix(". "))?)
}

/// Returns whether the line is the definition of a link, `[name]: target`.
fn is_link(text: &str) -> bool {
    text.starts_with('[') && text.contains("]: ")
}

/// Splits a text at full stops, colons and similar marks before white space, except within a code span.
fn clauses(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut in_code, mut ended) = (false, false);
    for c in text.chars() {
        in_code ^= c == '`';
        if c.is_whitespace() && ended && !in_code {
            found.push(String::new());
            ended = false;
            continue;
        }
        ended = !in_code && (".!?;:".contains(c) || ended && c == ')');
        found.last_mut().expect("there is one").push(c);
    }
    found
}

/// Counts the words of a clause. A code span counts as one word, and the target of a link as none.
fn words(clause: &str) -> usize {
    let mut plain = String::new();
    for (at, part) in clause.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { part } else { "code" });
    }
    let mut rest = plain.as_str();
    let mut text = String::new();
    while let Some(at) = rest.find("](") {
        text.push_str(&rest[..at]);
        rest = rest[at..].split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    text.split_whitespace().filter(is_word).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn only_the_opening_of_a_doc_comment_counts() {
        let text =
            "/// What it is.\nfn a() {}\n// What it is.\n/// Whatever.\n///\n/// It is.\n//! The same.\n";
        let lines: Vec<usize> = first_words(&file(text))
            .iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(lines, [1, 7]);
    }

    #[test]
    fn a_clause_ends_at_its_mark() {
        let words = "word ".repeat(25);
        assert_eq!(long_clauses(&file(&format!("// {words}`a b c.`"))).len(), 1);
        assert_eq!(long_clauses(&file(&format!("// {words}[more](a b)"))).len(), 1);
        for end in ['.', ':', ';'] {
            let clause = words.trim();
            assert_eq!(
                long_clauses(&file(&format!("// {clause}{end}\n// {clause}"))).len(),
                0
            );
        }
        assert_eq!(
            long_clauses(&file(&format!("/// ```\n/// {words} {words}\n/// ```"))).len(),
            0
        );
        assert_eq!(
            long_clauses(&file(&format!("/// - {words}\n/// - {words}"))).len(),
            0
        );
    }

    #[test]
    fn wide_comments_are_found() {
        let wide = "a".repeat(120);
        let text = format!("// {wide}\n// | {wide} |\nlet a = \"{wide}\";\n");
        let lines: Vec<usize> = wide_lines(&file(&text))
            .iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(lines, [1]);
    }

    #[test]
    fn retired_terms_are_found_as_words() {
        for (term, _) in RETIRED {
            assert_eq!(retired_terms(&file(&format!("x\n{term}."))).len(), 1);
            assert_eq!(retired_terms(&file(&format!("x{term}"))), []);
        }
    }
}
