//! Tests of the texts that are generated from the flags: the reference page, shell completions, and manual
//! pages.

use std::fmt::Write;
use std::fs;

use crate::source::tree::root;
use crate::support::process::{finish, millstream};

/// The environment variable that makes the test write the page instead of comparing it.
const WRITE: &str = "MILLSTREAM_WRITE_REFERENCE";

/// The reference page of the command line.
const PAGE: &str = "docs/reference/cli.md";

/// The commands, in the order of the page.
const COMMANDS: [&str; 15] = [
    "up",
    "dispatcher",
    "worker",
    "read",
    "explain",
    "status",
    "top",
    "autoscale",
    "doctor",
    "shutdown",
    "key",
    "config",
    "demo",
    "completions",
    "man",
];

/// Runs the command without a key, and returns its standard output.
fn output(arguments: &[&str]) -> String {
    let mut command = millstream("", arguments);
    command.env_remove("COLUMNS");
    let finished = finish(command);
    assert!(finished.status.success(), "{arguments:?}: {finished:?}");
    finished.stdout
}

#[test]
fn the_reference_page_is_the_help() {
    let mut page = "# Command line\n\nEach section is what `millstream COMMAND --help` prints.\n".to_owned();
    let general = output(&["--help"]);
    let listed = general.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in listed.take_while(|line| !line.is_empty()) {
        // Lines with a deeper indentation continue the description in the line above.
        let command = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        let name = command.and_then(|rest| rest.split_whitespace().next());
        assert!(
            name.is_none_or(|name| name == "help" || COMMANDS.contains(&name)),
            "{name:?} is not on the page"
        );
    }
    let sections = COMMANDS.map(|name| (format!("millstream {name}"), output(&[name, "--help"])));
    for (title, help) in [("millstream".to_owned(), general)].into_iter().chain(sections) {
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        write!(
            page,
            "\n## `{title}`\n\n```text\n{}\n```\n",
            help.join("\n").trim_end()
        )
        .unwrap();
    }
    let path = root().join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "{PAGE} is out of date: run this test with {WRITE}=1, and commit the page"
    );
}

#[test]
fn every_shell_gets_completions_of_all_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    output(&["man", "--out", folder.path().to_str().unwrap()]);
    for command in COMMANDS {
        let page = fs::read_to_string(folder.path().join(format!("millstream-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{page}");
    }
    assert!(folder.path().join("millstream.1").is_file());
}
