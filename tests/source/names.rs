//! The rule for names of tests: a name is a claim of few words.
//!
//! A test of another project's row, named `<file>__<row>`, may have a longer name.

use super::lexer::is_word;
use super::tree::{File, Finding};

/// The maximum number of words in the name of a test.
const WORDS_MAX: usize = 8;

/// Finds tests in Rust and Python with names that are too long.
pub(crate) fn long_test_names(file: &File) -> Vec<Finding> {
    let mut is_test = false;
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let rust = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let python = line.strip_prefix("def test_");
        let Some(name) = rust.filter(|_| is_test).or(python) else {
            continue;
        };
        is_test = false;
        let name = name.split(|c| !is_word(c)).next().unwrap_or_default();
        let words = name.split('_').count();
        if words > WORDS_MAX && !name.contains("__") {
            let what =
                format!("{name} has {words} words, at most {WORDS_MAX}: shorten the name to one claim");
            found.push(Finding::new(&file.path, at + 1, "test name", what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = File {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        };
        long_test_names(&file)
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn only_long_names_of_tests_are_found() {
        let long = "a_b_c_d_e_f_g_h_i";
        assert_eq!(
            lines(&format!("#[test]\nfn {long}() {{}}\nfn {long}() {{}}")),
            [2]
        );
        assert_eq!(
            lines(&format!(
                "#[tokio::test(start_paused = true)]\nasync fn {long}() {{}}"
            )),
            [2]
        );
        assert_eq!(lines(&format!("    def test_{long}(x):")), [1]);
        assert_eq!(lines("#[test]\nfn a_b_c_d_e_f_g_h() {}"), [0usize; 0]);
        assert_eq!(lines("#[test]\nfn file__a_b_c_d_e_f_g_h_i() {}"), [0usize; 0]);
    }
}
