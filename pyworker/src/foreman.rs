//! The foreman: the template process that imports the modules of the code, and starts and reaps executors.
//! The foreman forks executors while it has one thread, and otherwise starts them as new processes. Of the
//! user's code it runs only imports. The foreman ends with the thread that supervises it, and ends its
//! executors too. This file does not know the requests to executors.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_pipeline::exec::{Cancel, ErrorKind, ExecError};
use parking_lot::Mutex;
use rustix::fs::MemfdFlags;

use super::ending::Gone;
use super::interpreter::Interpreter;
use super::params::NAME;
use super::socket::Socket;

/// The time limit for imports.
const IMPORTS: Duration = Duration::from_secs(120);
/// The time limit for an answer of the foreman process, which answers at once unless the machine is
/// overloaded.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval at which a thread that waits for imports checks for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time that the foreman process has to end its executors and itself.
const GRACE: Duration = Duration::from_secs(3);
/// The time that a foreman process has to end itself while it imports modules.
const IMPORTS_GRACE: Duration = Duration::from_secs(1);
/// The interval of checks whether the foreman process has ended.
const GRACE_STEP: Duration = Duration::from_millis(2);

/// Environment variables that libraries read at import. The worker sets these variables unless the user has
/// set them.
///
/// The number of executors equals the number of processors, so further threads in each executor would only
/// compete. In addition, an import must not leave a running thread, because a process with several threads
/// cannot fork. The allocator of pyarrow, which TensorFlow and Hugging Face's datasets import, would start a
/// thread.
const QUIET: [(&str, &str); 5] = [
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("JE_ARROW_MALLOC_CONF", "background_thread:false"),
];

/// The program of a foreman process. If an import of the package fails, the program answers the first request
/// with the reason. The request is read first, because the system drops the answer of a socket with unread
/// requests.
const PROGRAM: &str = "\
import sys
try:
    from millstream._foreman import main
except ImportError as error:
    import os
    os.read(0, 1 << 12)
    advice = 'install millstream and numpy for this interpreter, or choose another one with --python or MILLSTREAM_PYTHON'
    os.write(0, b'\\2' + f'{error}: {advice}'.encode())
    raise
sys.exit(main(sys.argv[1:]))
";

const START: u8 = 1;
const HIRE: u8 = 2;
const END: u8 = 3;
const DONE: u8 = 1;

/// The number of an executor at its foreman process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChildId(u32);

/// The urgency with which an executor is ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Urgency {
    /// The executor is ending by itself. The foreman process kills it only if it does not end.
    Soon = 0,
    /// The executor is killed at once.
    AtOnce = 1,
    /// The executor is killed at once, after its stack was printed to standard error.
    Shown = 2,
}

/// A running foreman process. Dropping this value ends and reaps the process and its executors.
#[derive(Debug)]
pub(super) struct Foreman {
    talk: Mutex<Talk>,
    /// The time at which the process was started, from which the limit for imports counts.
    begun: Instant,
    /// True after the process has reported that it has imported the modules.
    is_ready: Arc<AtomicBool>,
    /// Dropping the sender makes the keeper thread end the process.
    _wanted: SyncSender<()>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// The socket to the foreman process, for one request at a time.
#[derive(Debug)]
struct Talk {
    socket: Option<Socket>,
    next: u32,
    datagram: Vec<u8>,
}

impl Foreman {
    /// Starts a foreman process for `code`, whose description is the JSON in `described`. The process imports
    /// the modules of the code. Calls `tick` about once a second while the process lives.
    ///
    /// # Errors
    /// Fails if the interpreter does not exist, which is the caller's mistake, or if the system refuses a
    /// process.
    pub(super) fn start(
        interpreter: &Interpreter,
        described: &str,
        code: &[u8],
        tick: impl Fn() + Send + 'static,
    ) -> Result<Foreman, ExecError> {
        let refused = |error: io::Error| {
            let program = interpreter.program.display();
            let message = format!(
                "the interpreter {program} cannot be started: {error}. Choose an interpreter by --python or MILLSTREAM_PYTHON, or \
                 put python3 on the worker's PATH"
            );
            ExecError::new(ErrorKind::Caller, NAME, message)
        };
        let (socket, other) = Socket::pair().map_err(refused)?;
        let (wanted, until) = sync_channel::<()>(0);
        let (tell, told) = sync_channel(1);
        let mut command = command(interpreter);
        let scratch = interpreter.isolation.apply(&mut command).map_err(refused)?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let has_imported = Arc::clone(&is_ready);
        // The kernel ends the process together with the thread that starts it, so a thread that stays alive
        // starts it.
        let keep = move || {
            let started = start(&mut command, other);
            match started {
                Ok(child) => {
                    let _ = tell.send(Ok(()));
                    keep(child, &until, &has_imported, tick);
                    drop(scratch);
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        };
        let keeper = std::thread::Builder::new()
            .name("python-foreman".to_owned())
            .spawn(keep);
        let foreman = Foreman {
            talk: Mutex::new(Talk {
                socket: Some(socket),
                next: 0,
                datagram: Vec::new(),
            }),
            begun: Instant::now(),
            is_ready,
            _wanted: wanted,
            keeper: Mutex::new(Some(keeper.map_err(refused)?)),
        };
        told.recv()
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(refused)?;
        foreman.hand_over(interpreter, described, code)?;
        Ok(foreman)
    }

    fn hand_over(&self, interpreter: &Interpreter, described: &str, code: &[u8]) -> Result<(), ExecError> {
        let file = memory_file(described, code).map_err(|error| {
            let bytes = described.len() as u64 + code.len() as u64;
            let why = error.to_string();
            Gone::NoSharedMemory { bytes, why }.failure(1)
        })?;
        let mut datagram = vec![START];
        datagram.extend((described.len() as u64).to_le_bytes());
        datagram.extend((code.len() as u64).to_le_bytes());
        let sent = self.talk.lock().send(&datagram, Some(file.as_fd()));
        sent.map_err(|error| runs_no_code(interpreter, &ended(&error)))
    }

    /// Waits until the process has imported the modules of the code. If the wait is cancelled, the process
    /// continues to import, and another call can wait. After another error the process is of no use.
    ///
    /// # Errors
    /// Fails if the process has ended, refuses to run code, or imports for too long, which are the caller's
    /// mistakes. Fails if the wait is cancelled.
    pub(super) fn wait(&self, interpreter: &Interpreter, cancel: &Cancel) -> Result<(), ExecError> {
        loop {
            if self.is_ready.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut talk = self.talk.lock();
            let failure = match talk.receive(LOOK_EVERY) {
                Ok(true) => match talk.refusal() {
                    Some(why) => why,
                    None => {
                        // Relaxed: the flag guards no other memory.
                        self.is_ready.store(true, Ordering::Relaxed);
                        continue;
                    }
                },
                Ok(false) if cancel.is_cancelled() => return Err(ExecError::cancelled(NAME)),
                Ok(false) if self.begun.elapsed() > IMPORTS => {
                    format!("its imports took longer than {IMPORTS:?}")
                }
                Ok(false) => continue,
                Err(error) => ended(&error),
            };
            talk.socket.take();
            return Err(runs_no_code(interpreter, &failure));
        }
    }

    /// Starts an executor that uses `socket`. Returns the executor's number and process id.
    ///
    /// # Errors
    /// Fails if the foreman process has ended, or if the system refuses a process.
    pub(super) fn hire(
        &self,
        index: u32,
        seed: u64,
        socket: BorrowedFd<'_>,
    ) -> Result<(ChildId, u32), ExecError> {
        let mut talk = self.talk.lock();
        talk.next = talk.next.wrapping_add(1);
        let child = ChildId(talk.next);
        let mut datagram = vec![HIRE];
        datagram.extend(child.0.to_le_bytes());
        datagram.extend(index.to_le_bytes());
        datagram.extend(seed.to_le_bytes());
        let hired = talk
            .ask(&datagram, Some(socket))
            .and_then(|pid| u32::try_from(pid).map_err(io::Error::other));
        // Treated like a killed process, because another foreman process may succeed.
        let failed = |error: io::Error| {
            ExecError::new(
                ErrorKind::Resource,
                NAME,
                format!("no process can be started for the code: {error}"),
            )
        };
        Ok((child, hired.map_err(failed)?))
    }

    /// Ends an executor and reaps it. Returns its exit status, or a negative signal number; `None` if the
    /// status is unknown.
    pub(super) fn end(&self, child: ChildId, urgency: Urgency) -> Option<i32> {
        let mut datagram = vec![END];
        datagram.extend(child.0.to_le_bytes());
        datagram.push(urgency as u8);
        self.talk
            .lock()
            .ask(&datagram, None)
            .ok()
            .and_then(|status| i32::try_from(status).ok())
    }

    /// Returns whether the foreman process can receive requests.
    pub(super) fn is_there(&self) -> bool {
        self.talk.lock().socket.is_some()
    }
}

impl Talk {
    fn send(&mut self, datagram: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let sent = self.socket.as_ref().map(|socket| socket.send(datagram, fd));
        sent.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
            .inspect_err(|_| drop(self.socket.take()))
    }

    /// Returns whether an answer arrives within `patience`.
    fn receive(&mut self, patience: Duration) -> io::Result<bool> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "its process has ended");
        let socket = self.socket.as_ref().ok_or_else(gone)?;
        let received = socket.receive(&mut self.datagram, patience);
        let ended = matches!(received, Ok(Some(())) if self.datagram.is_empty());
        if received.is_err() || ended {
            self.socket.take();
        }
        if ended {
            Err(gone())
        } else {
            Ok(received?.is_some())
        }
    }

    /// Returns the reason for which the process refuses the request, if the received answer is a refusal.
    fn refusal(&self) -> Option<String> {
        let (kind, why) = self.datagram.split_first()?;
        (*kind != DONE).then(|| String::from_utf8_lossy(why).into_owned())
    }

    /// Sends one request and returns the number in the answer. After a missing answer the foreman process
    /// receives no further requests.
    fn ask(&mut self, datagram: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<i64> {
        self.send(datagram, fd)?;
        if !self.receive(PATIENCE)? {
            self.socket.take();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its foreman process does not answer",
            ));
        }
        match self.datagram.split_first() {
            Some((&DONE, number)) if number.len() == 8 => Ok(number
                .iter()
                .rev()
                .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
                .cast_signed()),
            Some((_, said)) => Err(io::Error::other(String::from_utf8_lossy(said).into_owned())),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Drop for Foreman {
    fn drop(&mut self) {
        self.talk.lock().socket.take();
        let (other, _) = sync_channel(0);
        drop(std::mem::replace(&mut self._wanted, other));
        let keeper = self.keeper.lock().take();
        // The keeper thread itself may drop the last reference, after its pool was idle for a while.
        if let Some(keeper) = keeper.filter(|keeper| keeper.thread().id() != std::thread::current().id()) {
            let _ = keeper.join();
        }
    }
}

fn command(interpreter: &Interpreter) -> Command {
    let mut command = Command::new(&interpreter.program);
    interpreter.environment.apply(&mut command);
    command
        // Python must not import modules from the current directory, which may belong to another user.
        .args(["-P", "-c", PROGRAM])
        .arg(std::process::id().to_string());
    if let Some(path) = &interpreter.search_path {
        command.env("PYTHONPATH", path);
    }
    for (name, value) in QUIET {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command
}

fn start(command: &mut Command, socket: OwnedFd) -> io::Result<Child> {
    let started = command.stdin(Stdio::from(socket)).spawn();
    // The command holds the process's end of the socket until its stdin is replaced.
    command.stdin(Stdio::null());
    started
}

/// Supervises the process until `until` is closed, then waits until the process has ended. Kills a process
/// that imports modules sooner than another one, because it has no executors.
fn keep(mut child: Child, until: &Receiver<()>, has_imported: &AtomicBool, tick: impl Fn()) {
    while let Err(RecvTimeoutError::Timeout) = until.recv_timeout(Duration::from_secs(1)) {
        tick();
    }
    let begun = Instant::now();
    let grace = if has_imported.load(Ordering::Relaxed) {
        GRACE
    } else {
        IMPORTS_GRACE
    };
    // The socket is already closed, so the process ends its executors and itself.
    while begun.elapsed() < grace {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(GRACE_STEP),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // The executors die with the process.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the reason for which a process of the interpreter has ended before it was ready.
fn ended(error: &io::Error) -> String {
    let is_gone = matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    );
    let how = if is_gone {
        "its process has ended".to_owned()
    } else {
        error.to_string()
    };
    format!(
        "{how}. Choose an interpreter of Python 3.11 or later that has the packages millstream and numpy, with --python or \
         MILLSTREAM_PYTHON"
    )
}

fn runs_no_code(interpreter: &Interpreter, why: &str) -> ExecError {
    let program = interpreter.program.display();
    let message = format!(
        "the interpreter {program} does not run code: {why}. The worker's log contains the interpreter's output"
    );
    ExecError::new(ErrorKind::Caller, NAME, message)
}

/// Writes the description and the code to memory that the foreman process can read.
fn memory_file(described: &str, code: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("millstream-code", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(described.as_bytes())?;
    file.write_all(code)?;
    Ok(file.into())
}
