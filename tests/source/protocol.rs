//! The numbered rules of the `PROTOCOL.md` files, and the comments that cite them.
//!
//! A rule number is a capital letter followed by numbers, joined by points. A page defines a rule where the
//! number opens a heading, or is bold at the start of a line.

use std::collections::BTreeMap;

use super::lexer::{Lexed, is_word};
use super::tree::{File, Finding};

/// The names of files and folders that contain only tests.
const TESTING: [&str; 2] = ["tests", "simulation"];

/// A rule number and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// Returns the rules that the protocol pages define, in their order.
pub(crate) fn defined(files: &[File]) -> Vec<Rule> {
    let pages = files.iter().filter(|file| file.name() == "PROTOCOL.md");
    pages
        .flat_map(|file| numbers(file, &file.text, |line| defines(line).into_iter().collect()))
        .collect()
}

/// Returns the rules that comments in Rust sources cite. A number counts as a citation only if a defined rule
/// begins with the same letter.
pub(crate) fn cited(files: &[File], rules: &[Rule]) -> Vec<Rule> {
    let ours =
        |number: &String| number.contains('.') && rules.iter().any(|rule| rule.number[..1] == number[..1]);
    let sources = files.iter().filter(|file| file.is_rust());
    let in_comments = |file: &File| {
        let comments = Lexed::new(&file.text).comments;
        numbers(file, &comments, |line| {
            all_in(line).into_iter().filter(ours).collect()
        })
    };
    sources.flat_map(in_comments).collect()
}

/// Finds rule numbers that are defined twice.
pub(crate) fn repeated(rules: &[Rule]) -> Vec<Finding> {
    let mut first: BTreeMap<&str, &Rule> = BTreeMap::new();
    let mut findings = Vec::new();
    for rule in rules {
        if let Some(earlier) = first.insert(&rule.number, rule) {
            let what = format!(
                "{} is already defined at {}:{}",
                rule.number, earlier.file, earlier.line
            );
            findings.push(Finding::new(&rule.file, rule.line, "protocol rule", what));
        }
    }
    findings
}

/// Finds citations of rules that no page defines.
pub(crate) fn unknown(rules: &[Rule], citations: &[Rule]) -> Vec<Finding> {
    let is_known = |citation: &&Rule| rules.iter().any(|rule| rule.number == citation.number);
    let unknown = citations.iter().filter(|citation| !is_known(citation));
    let what = |citation: &Rule| format!("cites {}, which no PROTOCOL.md defines", citation.number);
    unknown
        .map(|citation| Finding::new(&citation.file, citation.line, "protocol rule", what(citation)))
        .collect()
}

/// Finds rules that no code, or no test, cites.
pub(crate) fn uncited(rules: &[Rule], citations: &[Rule], files: &[File]) -> Vec<Finding> {
    let is_test = |citation: &Rule| {
        let file = files.iter().find(|file| file.path == citation.file);
        let tests = file.and_then(|file| file.text.lines().position(|line| line == "mod tests {"));
        let mut parts = citation.file.split('/').map(|part| part.trim_end_matches(".rs"));
        parts.any(|part| TESTING.contains(&part)) || tests.is_some_and(|line| citation.line > line)
    };
    let is_cited = |rule: &Rule, by_test: bool| {
        citations
            .iter()
            .any(|citation| citation.number == rule.number && is_test(citation) == by_test)
    };
    let mut findings = Vec::new();
    for rule in rules.iter().filter(|rule| rule.number.contains('.')) {
        for (by_test, who) in [(false, "code"), (true, "test")] {
            if !is_cited(rule, by_test) {
                let what = format!("{} is cited by no {who}", rule.number);
                findings.push(Finding::new(&rule.file, rule.line, "protocol rule", what));
            }
        }
    }
    findings
}

fn numbers(file: &File, text: &str, of_line: impl Fn(&str) -> Vec<String>) -> Vec<Rule> {
    let rule = |number, at| Rule {
        number,
        file: file.path.clone(),
        line: at + 1,
    };
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(at, line)| of_line(line).into_iter().map(move |number| rule(number, at)))
        .collect()
}

fn defines(line: &str) -> Option<String> {
    let marks = |c: char| " -#|>".contains(c);
    let body = line.trim_start_matches(marks);
    let bold = body.strip_prefix("**");
    let candidate = bold.or_else(|| line.starts_with('#').then_some(body))?;
    let word = candidate
        .split(|c: char| !(is_word(c) || c == '.'))
        .next()?
        .trim_end_matches('.');
    is_number(word).then(|| word.to_owned())
}

fn all_in(line: &str) -> Vec<String> {
    let words = line
        .split(|c: char| !(is_word(c) || c == '.'))
        .map(|word| word.trim_end_matches('.'));
    words.filter(|word| is_number(word)).map(str::to_owned).collect()
}

/// Returns whether a word is a capital letter followed by numbers, joined by points.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    digits.is_some_and(|rest| {
        rest.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Protocol\n## D1 Versions\n- **D1.1** One.\n  **D1.2** Two, see D1.1.\n### D2.1 Three\nD9.9 not at all\n";

    fn files(page: &str, code: &str) -> Vec<File> {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        vec![file("a/PROTOCOL.md", page), file("a/src/x.rs", code)]
    }

    fn found(rules: &[Rule]) -> Vec<(&str, usize)> {
        rules
            .iter()
            .map(|rule| (rule.number.as_str(), rule.line))
            .collect()
    }

    #[test]
    fn only_headings_and_bold_define_rules() {
        let rules = defined(&files(PAGE, ""));
        assert_eq!(found(&rules), [("D1", 2), ("D1.1", 3), ("D1.2", 4), ("D2.1", 5)]);
        assert_eq!(repeated(&rules), []);
    }

    #[test]
    fn a_number_defined_twice_is_found() {
        let rules = defined(&files("- **D1.1** a\n- **D1.1** b\n", ""));
        assert_eq!(repeated(&rules)[0].line, 2);
    }

    #[test]
    fn unknown_rules_are_found_in_comments() {
        let files = files(
            PAGE,
            "// D1.1, D1.9.\nlet x = \"D7.7\"; /* C64, V1.2, 0xD1.5 */\n/// (D2.1)\n",
        );
        let rules = defined(&files);
        let citations = cited(&files, &rules);
        assert_eq!(found(&citations), [("D1.1", 1), ("D1.9", 1), ("D2.1", 3)]);
        assert_eq!(unknown(&rules, &citations)[0].line, 1);
        assert_eq!(unknown(&rules, &citations).len(), 1);
    }

    #[test]
    fn a_rule_needs_code_and_test() {
        let count = |code: &str| {
            let files = files("- **D1.1** a\n", code);
            let rules = defined(&files);
            uncited(&rules, &cited(&files, &rules), &files).len()
        };
        assert_eq!(count(""), 2);
        assert_eq!(count("// D1.1\n"), 1);
        assert_eq!(count("// D1.1\nmod tests {\n// D1.1\n}\n"), 0);
    }
}
