//! Forbidden words: paths that exist on one machine only, and markers of unfinished work.
//!
//! This file writes each word in two parts, because it would otherwise violate its own rule.

use super::lexer::is_word;
use super::tree::{File, Finding};

const PRIVATE_FOLDERS: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Use", "rs/"),
];
const LEFTOVERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Finds absolute paths below folders that exist on one machine only.
pub(crate) fn private_paths(file: &File) -> Vec<Finding> {
    let hit = |line: &str| {
        PRIVATE_FOLDERS
            .into_iter()
            .find(|folder| stands(line, folder, |c| is_word(c) || ".-}".contains(c)))
    };
    per_line(file, |line| {
        hit(line).map(|folder| {
            (
                "private path",
                format!("paths below {folder} do not exist on other machines"),
            )
        })
    })
}

/// Finds markers of unfinished work, which belong in an issue.
pub(crate) fn leftovers(file: &File) -> Vec<Finding> {
    let hit = |line: &str| LEFTOVERS.into_iter().find(|word| stands(line, word, is_word));
    per_line(file, |line| {
        hit(line).map(|word| ("leftover", format!("{word}: do it now or open an issue")))
    })
}

/// Returns whether the line contains `word` without a joining character before the word. If the word ends in
/// a letter, no joining character may follow either.
fn stands(line: &str, word: &str, joins: impl Fn(char) -> bool) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(&joins) && (word.ends_with('/') || !after.is_some_and(&joins))
    })
}

fn per_line(file: &File, check: impl Fn(&str) -> Option<(&'static str, String)>) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(at, line)| check(line).map(|(rule, what)| Finding::new(&file.path, at + 1, rule, what)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: String) -> File {
        File {
            path: "a.md".to_owned(),
            text,
        }
    }

    #[test]
    fn a_private_path_is_found() {
        for folder in PRIVATE_FOLDERS {
            assert_eq!(private_paths(&file(format!("x\nsee `{folder}x`")))[0].line, 2);
            assert_eq!(private_paths(&file(format!("https://example.org{folder}x"))), []);
            assert_eq!(
                private_paths(&file(format!("../..{folder}x ${{dir}}{folder}x"))),
                []
            );
        }
    }

    #[test]
    fn markers_are_found_as_words() {
        for word in LEFTOVERS {
            assert_eq!(leftovers(&file(format!("// {word}: later"))).len(), 1);
            assert_eq!(leftovers(&file(format!("A{word}_x {word}S"))), []);
        }
    }
}
