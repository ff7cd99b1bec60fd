//! A dispatcher process with a work directory that is killed and started again, and the thread that kills it.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::process::Process;

/// A dispatcher that can be killed and started again. Clones share the process.
#[derive(Debug, Clone)]
pub(crate) struct Mortal {
    running: Arc<Mutex<Option<Process>>>,
    key: String,
    arguments: Vec<String>,
    /// The address of the dispatcher, which stays the same after each restart.
    pub(crate) address: String,
}

impl Mortal {
    /// Starts the dispatcher in an empty work directory.
    pub(crate) fn start(key: &str, work_dir: &Path, arguments: &[&str]) -> Self {
        let work_dir = work_dir.to_str().expect("a path of letters");
        let mut arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        arguments.extend(["--work-dir", work_dir, "--bind"].map(str::to_owned));
        let address = lasting_address();
        let first = begin(key, &arguments, &address);
        Self {
            running: Arc::new(Mutex::new(Some(first))),
            key: key.to_owned(),
            arguments,
            address,
        }
    }

    /// Kills the dispatcher with SIGKILL, and starts it again at once.
    pub(crate) fn kill_and_revive(&self) {
        self.kill();
        self.revive();
    }

    /// Kills the dispatcher with SIGKILL.
    pub(crate) fn kill(&self) {
        drop(self.running.lock().expect("nobody panicked with it").take());
    }

    /// Starts the dispatcher again after a kill, with its records.
    pub(crate) fn revive(&self) {
        let revived = begin(&self.key, &self.arguments, &self.address);
        *self.running.lock().expect("nobody panicked with it") = Some(revived);
    }
}

/// Returns an address for a server that ends and starts again. The port is below the system's range for
/// automatic ports (32768 and above), so no other process gets it meanwhile.
pub(crate) fn lasting_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let place = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let address = format!("127.0.0.1:{}", 20_000 + place % 12_000);
        if UdpSocket::bind(&address).is_ok() {
            return address;
        }
    }
}

fn begin(key: &str, arguments: &[String], address: &str) -> Process {
    let mut all = vec!["dispatcher"];
    all.extend(arguments.iter().map(String::as_str));
    all.push(address);
    Process::start(key, &all)
}

/// A thread that kills a dispatcher once for each pause. Each kill happens that long after its request.
#[derive(Debug)]
pub(crate) struct Killer {
    due: Sender<()>,
    done: Receiver<()>,
    /// The number of kills that were not requested yet.
    left: usize,
    is_at_work: bool,
    thread: JoinHandle<()>,
}

impl Killer {
    pub(crate) fn start(victim: &Mortal, pauses: &[Duration]) -> Self {
        let (due, is_due) = channel();
        let (tell, done) = channel();
        let (victim, pauses) = (victim.clone(), pauses.to_vec());
        let left = pauses.len();
        let thread = thread::spawn(move || {
            for pause in pauses {
                // Receiving and sending fail only if the test has failed.
                if is_due.recv().is_err() {
                    return;
                }
                thread::sleep(pause);
                victim.kill_and_revive();
                let _ = tell.send(());
            }
        });
        Self {
            due,
            done,
            left,
            is_at_work: false,
            thread,
        }
    }

    /// Requests the next kill, once the dispatcher has started after the previous kill. Has no effect if no
    /// kills remain.
    pub(crate) fn next_is_due(&mut self) {
        if std::mem::take(&mut self.is_at_work) {
            self.done.recv().expect("the dispatcher comes back");
        }
        if self.left > 0 {
            self.left -= 1;
            self.is_at_work = true;
            self.due.send(()).expect("the killer lives");
        }
    }

    /// Returns whether a requested kill, or the restart after it, is still in progress.
    pub(crate) fn is_at_work(&mut self) -> bool {
        match self.done.try_recv() {
            Ok(()) => self.is_at_work = false,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => assert!(!self.is_at_work, "the dispatcher does not come back"),
        }
        self.is_at_work
    }

    /// Requests the remaining kills, and waits for all of them.
    pub(crate) fn finish(mut self) {
        while self.left > 0 || self.is_at_work {
            self.next_is_due();
        }
        self.thread.join().expect("the killer has done its work");
    }
}
