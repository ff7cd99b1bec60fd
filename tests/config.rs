//! Tests of the settings of commands: flags, variables and the settings file.

use std::fs;
use std::path::PathBuf;

use millstream::link::ClusterKey;

use crate::support::process::{Finished, Process, finish, millstream};
use crate::support::watched;

/// A settings file in a directory of its own.
struct Settings {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Settings {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("service.toml");
        fs::write(&path, text).expect("a file");
        Self {
            _directory: directory,
            path,
        }
    }

    /// Runs a command with the file and variables.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
        let path = self.path.to_str().expect("a readable path");
        let mut command = millstream("", &[&["--config", path], arguments].concat());
        command.envs(variables.iter().copied());
        finish(command)
    }
}

/// Returns the origin that `config show --origin` prints for a setting.
fn origin<'a>(shown: &'a str, setting: &str) -> Option<(&'a str, &'a str)> {
    let line = shown
        .lines()
        .find_map(|line| line.strip_prefix(setting)?.strip_prefix(" = "));
    let (value, origin) = line?.rsplit_once('#')?;
    Some((value.trim(), origin.trim()))
}

#[test]
fn each_setting_names_its_origin() {
    let settings = Settings::new(
        "log-format = 'json'\n[dispatcher]\nliveness-s = 7\nclient-timeout-s = 8.5\nwork-dir = 'from-file'\n",
    );
    let line = ["config", "show", "--origin", "dispatcher", "--liveness-s", "9"];
    let variables = [
        ("MILLSTREAM_BIND", "127.0.0.1:7"),
        ("MILLSTREAM_CLIENT_TIMEOUT_S", "6"),
        ("MILLSTREAM_KEY", "planted-secret"),
    ];
    let finished = settings.run(&line, &variables);
    assert!(finished.status.success(), "{finished:?}");
    let shown = finished.stdout.as_str();
    let path = settings.path.display();
    let (of_file, of_section) = (format!("file {path}"), format!("file {path} [dispatcher]"));
    let line = shown
        .lines()
        .find(|line| line.starts_with("# key = \"(not shown)\""));
    assert!(
        line.is_some_and(|line| line.ends_with("# variable MILLSTREAM_KEY")),
        "{shown}"
    );
    for (setting, expected) in [
        ("liveness-s", ("9", "flag")),
        ("client-timeout-s", ("6", "variable MILLSTREAM_CLIENT_TIMEOUT_S")),
        ("bind", ("\"127.0.0.1:7\"", "variable MILLSTREAM_BIND")),
        ("work-dir", ("\"from-file\"", of_section.as_str())),
        ("log-format", ("\"json\"", of_file.as_str())),
        ("verbose", ("0", "default")),
    ] {
        assert_eq!(origin(shown, setting), Some(expected), "{setting}: {shown}");
    }
    assert!(!shown.contains("planted-secret"), "{shown}");
}

#[test]
fn shown_settings_are_a_settings_file() {
    let settings = Settings::new("[worker]\nallow-path = ['/a', 's3://b/c']\ntag = \"it's\"\n");
    for command in ["up", "dispatcher", "worker", "read", "explain", "status", "demo"] {
        let line = ["config", "show", command];
        let shown = settings.run(&line, &[("MILLSTREAM_JOB_NAME", "007")]);
        assert!(shown.status.success(), "{shown:?}");
        // The second command parses every setting, as the command itself would.
        let again = Settings::new(&shown.stdout).run(&line, &[]);
        assert_eq!(shown.stdout, again.stdout, "{again:?}");
    }
    let all = settings.run(&["config", "show"], &[]);
    assert_eq!(
        all.stdout, "[worker]\nallow-path = [\"/a\", \"s3://b/c\"]\ntag = [\"it's\"]\n",
        "{all:?}"
    );
}

/// Tests the variable that adds to the flag.
#[test]
fn variables_of_python_add_to_the_flag() {
    let variables = [("MILLSTREAM_PYTHON_ENV", "B, C")];
    let line = ["config", "show", "--origin", "worker", "--python-env", "A"];
    let shown = Settings::new("").run(&line, &variables);
    let expected = (
        "[\"A\", \"B\", \"C\"]",
        "flag, and variable MILLSTREAM_PYTHON_ENV",
    );
    assert_eq!(origin(&shown.stdout, "python-env"), Some(expected), "{shown:?}");
}

/// Tests general settings that only some commands need.
#[test]
fn general_settings_disturb_no_command() {
    let settings = Settings::new("threads = 2\ncache-bytes = 1000\n[autoscale]\nexec = 'true'\n");
    let variables = [("MILLSTREAM_DISPATCHER", "head:1"), ("MILLSTREAM_THREADS", "")];
    let drawn = settings.run(&["explain", "--range", "5"], &variables);
    assert!(drawn.status.success(), "{drawn:?}");
    let worker = settings.run(&["config", "show", "--origin", "worker"], &variables);
    assert_eq!(
        origin(&worker.stdout, "dispatcher").map(|(value, _)| value),
        Some("\"head:1\"")
    );
    assert_eq!(
        origin(&worker.stdout, "threads").map(|(value, _)| value),
        Some("2")
    );
    let line = ["config", "show", "--origin", "autoscale", "--print"];
    let autoscale = settings.run(&line, &[]);
    assert!(autoscale.status.success(), "{autoscale:?}");
    assert_eq!(
        origin(&autoscale.stdout, "exec"),
        None,
        "a flag of the same group"
    );
}

#[test]
fn wrong_settings_name_the_right_ones() {
    for (text, variables, messages) in [
        (
            "[dispatcher]\nlivness-s = 7",
            [].as_slice(),
            [
                "[dispatcher]: unknown key `livness-s`",
                "did you mean `liveness-s`?",
            ],
        ),
        (
            "[dispatcher]\nliveness-s = 'soon'",
            &[],
            [
                "invalid value 'soon' for '--liveness-s",
                "`liveness-s` comes from the file",
            ],
        ),
        (
            "",
            &[("MILLSTREAM_LIVENESS_S", "soon")],
            [
                "invalid value 'soon' for '--liveness-s",
                "comes from the variable MILLSTREAM_LIVENESS_S",
            ],
        ),
        ("[dispatcher", &[], ["service.toml", "line 1, column"]),
    ] {
        for line in [["dispatcher"].as_slice(), &["config", "show", "dispatcher"]] {
            let finished = Settings::new(text).run(line, variables);
            assert_eq!(finished.status.code(), Some(2), "{finished:?}");
            for message in messages {
                assert!(finished.stderr.contains(message), "{message}: {finished:?}");
            }
        }
    }
    let absent = finish(millstream("", &["--config", "absent.toml", "dispatcher"]));
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");
    assert!(
        absent
            .stderr
            .contains("cannot read the settings file absent.toml"),
        "{absent:?}"
    );
}

#[test]
fn servers_take_settings_from_variables_and_files() {
    watched("settings", || {
        let key = ClusterKey::generate().expect("randomness").to_text();
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.jsonl");
        let settings = Settings::new(&format!(
            "[dispatcher]\nbind = '127.0.0.1:0'\naudit-log = '{}'\nwork-dir = 'replaced by the flag'\n",
            log.display()
        ));
        let path = settings.path.to_str().unwrap();
        let work_dir = directory.path().to_str().unwrap();
        let dispatcher = Process::start(&key, &["--config", path, "dispatcher", "--work-dir", work_dir]);
        assert!(!dispatcher.address.ends_with(":5050"), "the default port");
        assert!(log.exists(), "the audit log of the file");
        let mut status = millstream(&key, &["status"]);
        status.env("MILLSTREAM_DISPATCHER", &dispatcher.address);
        let finished = finish(status);
        assert!(finished.status.success(), "{finished:?}");
    });
}
