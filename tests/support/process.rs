//! Processes of the real binary, which end with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::watchdog::WATCHDOG;

/// The time limit of a command. Commands start other processes and decode pictures, in a debug build.
const COMMAND_WATCHDOG: Duration = Duration::from_secs(2 * WATCHDOG.as_secs());

/// The interval between two checks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Returns a command of the program with this key instead of the user's key.
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

/// The exit status and the output of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running command whose output is collected. Dropping the value kills the command.
#[derive(Debug)]
pub(crate) struct Running {
    what: String,
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a command.
    pub(crate) fn start(mut command: Command) -> Self {
        let what = format!("{:?}", command.get_args().collect::<Vec<_>>());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = collect(child.stdout.take().expect("piped"));
        // Standard error may go elsewhere, and is then not collected.
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

    /// Sends a signal, named as for the command `kill`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for the end of the command. At the time limit, kills the command and fails the test with its
    /// output and the state of its threads.
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
        // The pipes close when the last process with an open end exits. A child that outlives the command is
        // an error, too.
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
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: Command) -> Finished {
    Running::start(command).finish()
}

/// A server process that has reported its address. The process ends when its standard input closes; dropping
/// the value kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The address on which the process listens.
    pub(crate) address: String,
}

impl Process {
    /// Starts a dispatcher or worker, and waits until it serves.
    pub(crate) fn start(key: &str, arguments: &[&str]) -> Self {
        Self::start_in(&[], key, arguments)
    }

    /// Starts the process with additional environment variables.
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
        // The line is "dispatcher listening on ADDRESS" or "worker serving on ADDRESS for dispatcher …".
        let address = line
            .split_whitespace()
            .nth(3)
            .unwrap_or_else(|| panic!("{arguments:?} is not ready: {line:?}"))
            .to_owned();
        Self { child, address }
    }

    /// Starts a worker of this cluster.
    pub(crate) fn worker(cluster: &Cluster) -> Self {
        Self::start(&cluster.key_text, &["worker", "--dispatcher", &cluster.address])
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, named as for the command `kill`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Closes the standard input of the process, and waits for its end. Returns whether the process ended
    /// successfully.
    pub(crate) fn ends_well(mut self) -> bool {
        drop(self.child.stdin.take());
        self.has_ended_well()
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    /// Waits for the end of the process. Returns whether the process ended successfully.
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
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, named as for the command `kill`.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success(), "SIG{name} was not sent");
    if name == "STOP" {
        await_stop(child.id());
    }
}

/// Waits until all threads of a process have stopped. A thread that runs on another processor stops a moment
/// after the signal was sent, and could answer a request in this time.
fn await_stop(pid: u32) {
    let folder = format!("/proc/{pid}/task");
    let deadline = Instant::now() + WATCHDOG;
    let is_stopped = |thread: std::fs::DirEntry| {
        // The state follows the name of the thread, which is in parentheses.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    };
    loop {
        let mut threads = std::fs::read_dir(&folder).expect("the process runs").flatten();
        if threads.all(is_stopped) {
            return;
        }
        assert!(Instant::now() < deadline, "the process {pid} does not stop");
        std::thread::sleep(LOOK_EVERY);
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        // Sending fails only if the test has failed.
        let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
    });
    told
}

/// Lists the threads of a process by name, each with the kernel function in which the thread waits.
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
