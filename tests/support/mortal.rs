//! A dispatcher with a work directory that is killed and starts again, as a process, and who kills it.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::process::Process;

/// The dispatcher. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Mortal {
    running: Arc<Mutex<Option<Process>>>,
    key: String,
    arguments: Vec<String>,
    /// Address of the process, the same after each restart.
    pub(crate) address: String,
}

impl Mortal {
    /// The first life, in an empty directory.
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

    /// SIGKILL, and another life as soon as a process starts.
    pub(crate) fn kill_and_revive(&self) {
        let mut running = self.running.lock().expect("nobody panicked with it");
        drop(running.take());
        *running = Some(begin(&self.key, &self.arguments, &self.address));
    }
}

/// An address for a server that ends and comes back: the system gives this port to nobody meanwhile, since it
/// lies below those that it gives away (32768 and above).
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

/// Kills a dispatcher once for each pause, that long after it is told to.
#[derive(Debug)]
pub(crate) struct Killer {
    due: Sender<()>,
    done: Receiver<()>,
    /// Kills that nobody has asked for yet.
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
                // Both fail only when the test has.
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

    /// The next kill is due, once the dispatcher of the last one is there; none if all were done.
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

    /// Whether a kill that is due was not done yet, or the dispatcher is not back.
    pub(crate) fn is_at_work(&mut self) -> bool {
        match self.done.try_recv() {
            Ok(()) => self.is_at_work = false,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => assert!(!self.is_at_work, "the dispatcher does not come back"),
        }
        self.is_at_work
    }

    /// Does what is left, and waits for it.
    pub(crate) fn finish(mut self) {
        while self.left > 0 || self.is_at_work {
            self.next_is_due();
        }
        self.thread.join().expect("the killer has done its work");
    }
}
