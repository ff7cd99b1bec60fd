//! The demo's service: a dispatcher and workers, each a process of this very program.
//!
//! They die with the demo whatever becomes of it: their standard input is a pipe that only the demo holds
//! open.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use millstream::link::ClusterKey;

/// The time that a process may take until it serves.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// The time that a process may take to end when it is asked to.
const END_GRACE: Duration = Duration::from_secs(3);

/// The time between two looks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The processes. Dropping it ends and reaps all of them.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The address of the dispatcher.
    pub(super) dispatcher: String,
    /// The workers' process ids.
    pub(super) worker_pids: Vec<u32>,
    // Ended from first to last. The dispatcher last: workers say goodbye to it.
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    name: String,
    child: Child,
}

impl Cluster {
    /// Starts a dispatcher and so many workers on free ports of this machine, and waits until all serve.
    pub(super) fn start(workers: u32, key: &ClusterKey) -> Result<Self, String> {
        let mut starting = Vec::new();
        // Dropped on every way out, so that nothing stays behind.
        let mut cluster = Self {
            dispatcher: String::new(),
            worker_pids: Vec::new(),
            processes: Vec::new(),
        };
        let (dispatcher, line) = Process::start("dispatcher", &["dispatcher", "--bind", "127.0.0.1:0"], key)?;
        cluster.processes.push(dispatcher);
        let said = await_line("dispatcher", &line)?;
        let address = said.rsplit(' ').next().unwrap_or_default().to_owned();
        for number in 0..workers {
            let name = format!("worker {number}");
            let (process, line) = Process::start(&name, &["worker", "--dispatcher", &address], key)?;
            cluster.worker_pids.push(process.child.id());
            cluster.processes.insert(0, process);
            starting.push((name, line));
        }
        for (name, line) in starting {
            await_line(&name, &line)?;
        }
        cluster.dispatcher = address;
        Ok(cluster)
    }
}

impl Process {
    /// Starts this program with other arguments. What it says on standard output comes through the channel.
    fn start(name: &str, arguments: &[&str], key: &ClusterKey) -> Result<(Self, Receiver<String>), String> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--until-stdin-closes")
            // Not as an argument: those are for all to see.
            .env("MILLSTREAM_KEY", key.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let (tell, lines) = channel();
        let stdout = child.stdout.take();
        let process = Self {
            name: name.to_owned(),
            child,
        };
        let read = move || {
            for line in stdout
                .into_iter()
                .flat_map(|stdout| BufReader::new(stdout).lines())
                .map_while(Result::ok)
            {
                // Read on when nobody listens any more, so that the process never waits for the pipe.
                let _ = tell.send(line);
            }
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(read)
            .map_err(|error| format!("no thread: {error}"))?;
        Ok((process, lines))
    }

    /// Closes its standard input, which asks it to end; kills it if it does not. Reaps it either way.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_GRACE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        tracing::warn!(name = %self.name, "did not end when asked; killed");
        // It may have ended by itself just now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn await_line(name: &str, lines: &Receiver<String>) -> Result<String, String> {
    lines.recv_timeout(READY_DEADLINE).map_err(|error| match error {
        RecvTimeoutError::Timeout => format!("{name} does not serve after {} s", READY_DEADLINE.as_secs()),
        RecvTimeoutError::Disconnected => format!("{name} ended before it served; its reason stands above"),
    })
}
