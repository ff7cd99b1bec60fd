//! Processes of the real binary, which end with the test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::cluster::Cluster;

/// A running `millstream` command. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Process {
    /// A worker of a cluster, ready to serve.
    pub(crate) fn worker(cluster: &Cluster) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(["worker", "--until-stdin-closes", "--dispatcher", &cluster.address]);
        command
            .env("MILLSTREAM_KEY", &cluster.key_text)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        // "worker serving on ADDRESS for dispatcher …"
        let address = line
            .split_whitespace()
            .nth(3)
            .unwrap_or_else(|| panic!("not ready: {line:?}"))
            .to_owned();
        Self { child, address }
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success(), "SIG{name} was not sent");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
