//! A dispatcher and workers as processes of the real program, which end with their owner.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use millstream::link::{ClusterKey, KeySource, LoadedKey};

/// A key that only the processes of one run have.
pub(crate) struct Key {
    pub(crate) loaded: LoadedKey,
    text: String,
}

impl Key {
    pub(crate) fn generate() -> Result<Key, String> {
        let text = ClusterKey::generate()
            .map_err(|error| error.to_string())?
            .to_text();
        let loaded = KeySource::from_setting(&text).load();
        Ok(Key {
            loaded: loaded.map_err(|error| error.to_string())?,
            text,
        })
    }
}

/// A server process. Dropping the server kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// The address on which the process listens.
    pub(crate) address: String,
}

impl Server {
    /// Starts a dispatcher on a free port, with additional flags.
    pub(crate) fn dispatcher(key: &Key, flags: &[&str]) -> Result<Server, String> {
        Server::start(key, &[&["dispatcher", "--bind", "127.0.0.1:0"], flags].concat())
    }

    /// Starts a worker of this dispatcher.
    pub(crate) fn worker(key: &Key, dispatcher: &str) -> Result<Server, String> {
        Server::worker_with(key, dispatcher, &[])
    }

    /// Starts a worker of this dispatcher, with additional flags.
    pub(crate) fn worker_with(key: &Key, dispatcher: &str, flags: &[&str]) -> Result<Server, String> {
        Server::start(key, &[&["worker", "--dispatcher", dispatcher], flags].concat())
    }

    /// Returns the processor seconds that the process has used so far: all threads, user and system.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }

    /// Returns the processor seconds that the threads with this name have used so far.
    pub(crate) fn thread_cpu_seconds(&self, name: &str) -> f64 {
        let process = self.child.id();
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        let threads = threads.into_iter().flatten().flatten().filter(|thread| {
            let found = std::fs::read_to_string(thread.path().join("comm"));
            found.is_ok_and(|found| found.trim_end() == name)
        });
        threads
            .map(|thread| cpu_seconds(&format!("{process}/task/{}", thread.file_name().display())))
            .sum()
    }

    fn start(key: &Key, arguments: &[&str]) -> Result<Server, String> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millstream"))
            .args(arguments)
            .arg("--until-stdin-closes")
            .env("MILLSTREAM_KEY", &key.text)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the process has no output")?;
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        // The line is "dispatcher listening on ADDRESS" or "worker serving on ADDRESS for dispatcher …".
        match line.split_whitespace().nth(3) {
            Some(address) => Ok(Server {
                child,
                address: address.to_owned(),
            }),
            None => Err(format!(
                "the process {arguments:?} did not print its address: {line:?}"
            )),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processor seconds of this process.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds("self")
}

fn cpu_seconds(process: &str) -> f64 {
    // Fields 14 and 15 count ticks of 10 ms, on every Linux. The name before these fields may contain spaces.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |split| split.1);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
