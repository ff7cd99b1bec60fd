//! The demo's service: a dispatcher and workers, each a child process that runs this program.
//!
//! The processes end with the demo even if the demo crashes: their standard input is a pipe that only the
//! demo holds open.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use millstream::link::ClusterKey;

/// The time within which a process must serve.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// The time that a process has to end after the request.
const END_GRACE: Duration = Duration::from_secs(3);

/// The time between two checks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The processes of the service. Dropping the cluster ends and reaps all processes.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The address of the dispatcher.
    pub(super) dispatcher: String,
    /// The process ids of the workers.
    pub(super) worker_pids: Vec<u32>,
    // Processes end in this order. The dispatcher ends last, because workers say goodbye to it.
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    name: String,
    child: Child,
}

impl Cluster {
    /// Starts a dispatcher and `workers` workers on free ports of this machine, and waits until all processes
    /// serve.
    pub(super) fn start(workers: u32, key: &ClusterKey) -> Result<Self, String> {
        let mut starting = Vec::new();
        // An early return drops the cluster, which ends the processes started so far.
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
    /// Starts this program with other arguments. The channel receives the lines that the process prints on
    /// standard output.
    fn start(name: &str, arguments: &[&str], key: &ClusterKey) -> Result<(Self, Receiver<String>), String> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--until-stdin-closes")
            // The key is not an argument, because every user can see the arguments of a process.
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
                // The thread continues to read without a receiver, so that the process never blocks on a full
                // pipe.
                let _ = tell.send(line);
            }
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(read)
            .map_err(|error| format!("cannot start a thread for {name}: {error}"))?;
        Ok((process, lines))
    }

    /// Asks the process to end by closing its standard input. Kills the process if it does not end in time,
    /// and reaps it in any case.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_GRACE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        tracing::warn!(name = %self.name, "the process did not end in time and was killed");
        // The process may have ended in the meantime; a failed kill is harmless.
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
        RecvTimeoutError::Timeout => format!(
            "{name} does not serve after {} s; its messages are printed above",
            READY_DEADLINE.as_secs()
        ),
        RecvTimeoutError::Disconnected => {
            format!("{name} ended before it served; its error is printed above")
        }
    })
}
