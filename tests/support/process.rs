//! Processes of the real binary, which end with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::watchdog::WATCHDOG;

/// Commands start and end processes of their own and decode pictures, in a debug build.
const COMMAND_WATCHDOG: Duration = Duration::from_secs(2 * WATCHDOG.as_secs());

/// How often the end of a process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A command of the program with this key, which is no user's.
pub(crate) fn millstream(key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command
        .args(arguments)
        .env("MILLSTREAM_KEY", key)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running command whose output is collected. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    what: String,
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// The number in the system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a command.
    pub(crate) fn start(mut command: Command) -> Self {
        let what = format!("{:?}", command.get_args().collect::<Vec<_>>());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = collect(child.stdout.take().expect("piped"));
        // Where it goes elsewhere, nothing is collected of it.
        let stderr: Box<dyn Read + Send> = match child.stderr.take() {
            Some(stderr) => Box::new(stderr),
            None => Box::new(std::io::empty()),
        };
        let stderr = collect(stderr);
        Self {
            what,
            child,
            stdout,
            stderr,
        }
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for its end. One that hangs is killed, and the test fails with what it said and where its
    /// threads are.
    pub(crate) fn finish(mut self) -> Finished {
        let deadline = Instant::now() + COMMAND_WATCHDOG;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                break status;
            }
            if Instant::now() >= deadline {
                let threads = threads(self.child.id());
                let _ = self.child.kill();
                let said = (
                    self.stdout.recv_timeout(WATCHDOG),
                    self.stderr.recv_timeout(WATCHDOG),
                );
                panic!("{} hangs; threads: {threads}; it said: {said:?}", self.what);
            }
            std::thread::sleep(LOOK_EVERY);
        };
        // They end with the last process that holds the pipe: a child of the command that outlives it is an
        // error too.
        let all = |pipe: &Receiver<String>| pipe.recv_timeout(WATCHDOG).expect("it left a process behind");
        Finished {
            status,
            stdout: all(&self.stdout),
            stderr: all(&self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: Command) -> Finished {
    Running::start(command).finish()
}

/// A server that said it is ready, and ends when its standard input closes. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Address that the process listens on.
    pub(crate) address: String,
}

impl Process {
    /// A dispatcher or worker, ready to serve.
    pub(crate) fn start(key: &str, arguments: &[&str]) -> Self {
        Self::start_in(&[], key, arguments)
    }

    /// Starts the process with additions to its environment.
    pub(crate) fn start_in(environment: &[(&str, String)], key: &str, arguments: &[&str]) -> Self {
        Self::start_with(environment, key, arguments, Stdio::inherit())
    }

    /// Starts the process with a log that goes to a file.
    pub(crate) fn start_logging(
        environment: &[(&str, String)],
        key: &str,
        arguments: &[&str],
        log: &str,
    ) -> Self {
        let log = std::fs::File::create(log).expect("a log");
        Self::start_with(environment, key, arguments, log.into())
    }

    fn start_with(environment: &[(&str, String)], key: &str, arguments: &[&str], log: Stdio) -> Self {
        let mut command = millstream(key, arguments);
        command
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stderr(log);
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        // "dispatcher listening on ADDRESS", "worker serving on ADDRESS for dispatcher …"
        let address = line
            .split_whitespace()
            .nth(3)
            .unwrap_or_else(|| panic!("{arguments:?} is not ready: {line:?}"))
            .to_owned();
        Self { child, address }
    }

    /// A worker of a cluster.
    pub(crate) fn worker(cluster: &Cluster) -> Self {
        Self::start(&cluster.key_text, &["worker", "--dispatcher", &cluster.address])
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Closes its standard input and waits. True when it ended well.
    pub(crate) fn ends_well(mut self) -> bool {
        drop(self.child.stdin.take());
        self.has_ended_well()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    /// Waits for its end. True when it ended well.
    pub(crate) fn has_ended_well(&mut self) -> bool {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return status.success();
            }
            assert!(
                Instant::now() < deadline,
                "{} does not end; threads: {}",
                self.address,
                threads(self.child.id())
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, by the name that `kill` knows.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success(), "SIG{name} was not sent");
}

fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        // Nobody listens any more when the test has failed.
        let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
    });
    told
}

/// The threads of a process by name, with what the kernel has them wait for.
fn threads(pid: u32) -> String {
    let of = |thread: std::fs::DirEntry| {
        let read = |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        format!("{} in {}", read("comm").trim(), read("wchan").trim())
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    threads.flatten().map(of).collect::<Vec<_>>().join(", ")
}
