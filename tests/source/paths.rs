//! The paths that a source file names in `use` trees and in code, from the crate's root.
//!
//! The code of macros is read like other code. A name that `use` imports counts once, at the import.

use super::lexer::{Lexed, Token, is_word};
use super::tree::{File, Finding};

/// A path, such as `crate::proto::credit::Account` or `tokio::spawn`, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// A module, with the paths that no file in the module may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    /// The folder or file of the module, below the root.
    pub(crate) around: &'static str,
    /// The forbidden paths. Each path also forbids all paths below the path. A single keyword (`async`) is
    /// allowed too.
    pub(crate) keeps_out: &'static [&'static str],
}

/// Returns the forbidden paths that a file names.
pub(crate) fn breaches(file: &File, wall: &Wall) -> Vec<Finding> {
    if !file.is_rust() || !file.is_in(wall.around) {
        return Vec::new();
    }
    let breach = |named: Named| {
        let kept_out = wall.keeps_out.iter().find(|path| is_below(&named.path, path))?;
        let what = format!(
            "names `{}`, but `{}` never names `{kept_out}`",
            named.path, wall.around
        );
        Some(Finding::new(&file.path, named.line, "module edge", what))
    };
    named(file).into_iter().filter_map(breach).collect()
}

/// Returns the lines of a file that name one of these crates.
pub(crate) fn crate_lines(file: &File, crates: &[&str]) -> Vec<usize> {
    let lexed = Lexed::new(&file.text);
    lexed
        .tokens()
        .iter()
        .filter(|token| crates.contains(&token.text))
        .map(|token| token.line)
        .collect()
}

/// Returns every path in a file, with `self` and `super` resolved.
pub(crate) fn named(file: &File) -> Vec<Named> {
    let lexed = Lexed::new(&file.text);
    let mut reader = Reader {
        tokens: lexed.tokens(),
        raw: Vec::new(),
    };
    let mut module = module_of(&file.path);
    let mut open = Vec::new(); // for each open brace, `true` if the brace opens an inline module
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&Token { text, .. }) = reader.tokens.get(at) {
        let next = |ahead: usize| reader.tokens.get(at + ahead).map_or("", |token| token.text);
        match text {
            "mod" if next(2) == "{" => {
                module.push(next(1).to_owned());
                open.push(true);
                at += 3;
            }
            "{" => {
                open.push(false);
                at += 1;
            }
            "}" => {
                if open.pop() == Some(true) {
                    module.pop();
                }
                at += 1;
            }
            "use" => at = reader.tree(at + 1, &[]),
            _ if text.starts_with(is_word) => at = reader.inline(at),
            _ => at += 1,
        }
        found.extend(reader.raw.drain(..).map(|(path, line)| Named {
            path: resolve(&path, &module),
            line,
        }));
    }
    found
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    raw: Vec<(Vec<&'a str>, usize)>,
}

impl<'a> Reader<'a> {
    /// Reads the path `a::b::c` in code, and returns the index of the token after the path.
    fn inline(&mut self, start: usize) -> usize {
        let (mut path, mut at) = (vec![self.tokens[start].text], start + 1);
        while let [colons, word, ..] = &self.tokens[at..]
            && colons.text == "::"
            && word.text.starts_with(is_word)
        {
            path.push(word.text);
            at += 2;
        }
        self.raw.push((path, self.tokens[start].line));
        at
    }

    /// Reads one tree of a `use` below `prefix`, and returns the index of the token after the tree.
    fn tree(&mut self, start: usize, prefix: &[&'a str]) -> usize {
        let (mut path, mut at) = (prefix.to_vec(), start);
        while let Some(&Token { text, line }) = self.tokens.get(at) {
            match text {
                "{" => {
                    at += 1;
                    while self
                        .tokens
                        .get(at)
                        .is_some_and(|token| token.text != "}" && token.text != ";")
                    {
                        at = self.tree(at, &path);
                        at += usize::from(self.tokens.get(at).is_some_and(|token| token.text == ","));
                    }
                    return at + 1;
                }
                "::" => at += 1,
                "as" | "*" => {
                    self.raw.push((path, line));
                    return at + if text == "as" { 2 } else { 1 };
                }
                _ if text.starts_with(is_word) => {
                    path.push(text);
                    at += 1;
                }
                _ => {
                    self.raw.push((path, line));
                    // An unexpected mark is skipped, so that the parser always advances.
                    return if matches!(text, "," | "}" | ";") {
                        at
                    } else {
                        at + 1
                    };
                }
            }
        }
        at
    }
}

fn module_of(path: &str) -> Vec<String> {
    let below = path.split_once("src/").map_or(path, |(_, below)| below);
    let mut module: Vec<String> = below
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if module
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        module.pop();
    }
    module
}

fn resolve(path: &[&str], module: &[String]) -> String {
    let ups = path
        .iter()
        .take_while(|&&segment| segment == "super" || segment == "self")
        .count();
    let supers = path[..ups].iter().filter(|&&segment| segment == "super").count();
    if ups == 0 {
        return path.join("::");
    }
    let base = module[..module.len().saturating_sub(supers)]
        .iter()
        .map(String::as_str);
    std::iter::once("crate")
        .chain(base)
        .chain(path[ups..].iter().copied())
        .collect::<Vec<_>>()
        .join("::")
}

fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Wall = Wall {
        around: "a/src/pure",
        keeps_out: &["tokio", "crate::shell", "async"],
    };

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        breaches(&file, &WALL)
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn every_forbidden_path_is_found() {
        for text in [
            "use tokio::spawn;",
            "use std::{io, fmt::{self, Debug}};\n\nfn f() { tokio::spawn(x) }",
            "use crate::{pure::x, shell::{Y}};",
            "use crate::{other, shell as renamed};",
            "use super::super::shell::Y;",
            "use super::super::{other::*, shell::*};",
            "fn f(x: crate::shell::Y) {}",
            "mod tests { use super::super::super::shell; }",
            "pub async fn f() {}",
            "use ::tokio as t;",
        ] {
            assert_eq!(lines("a/src/pure/x.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_not() {
        for text in [
            "use tokios::x; use crate::shellfish;",
            "// use tokio;\nlet x = \"crate::shell\";",
            "use crate::pure::shell; mod shell; use self::shell::x;",
            "use super::shell;",
            "mod tests { use super::super::shell; }",
        ] {
            assert!(lines("a/src/pure/x.rs", text).is_empty(), "{text}");
        }
        assert!(lines("a/src/shell/x.rs", "use tokio::spawn;").is_empty());
    }

    #[test]
    fn paths_resolve_after_an_inline_module() {
        assert_eq!(
            lines("a/src/pure/mod.rs", "mod b { fn f() { {} } }\nuse super::shell;"),
            [2]
        );
    }

    #[test]
    fn a_broken_use_tree_ends_with_the_file() {
        for text in ["use a::{b, ", "use a::{;", "use", "use {{{", "use a::<b>::{c;"] {
            lines("a/src/pure/x.rs", text);
        }
    }
}
