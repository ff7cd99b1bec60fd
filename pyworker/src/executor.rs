//! One process that runs a user's code: its requests, and the wait for its answers. A wait ends at the
//! deadline, at the memory limit, on cancellation, or when the process ends. This file does not know other
//! executors.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_pipeline::exec::{Cancel, ErrorKind, ExecError, Value};

use super::count::Counted;
use super::descendants::{self, PROCESSES_MAX};
use super::ending::{Ending, Gone};
use super::foreman::{ChildId, Foreman, Urgency};
use super::params::{Limits, NAME};
use super::region::{Lease, REGION_BYTES_MAX, Regions};
use super::socket::Socket;
use super::wire::{self, Answer, Input, RegionName};

/// The interval at which a waiting thread checks the deadline, the memory of the process, and the
/// cancellation of the call.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The number of requests after which the memory of a process is checked even if no request took long.
const LOOK_AFTER_REQUESTS: u64 = 64;
/// The time limit for loading the code, even if the limit for calls is shorter.
const LOADING: Duration = Duration::from_secs(120);

/// One executor process. Dropping this value ends and reaps the process.
#[derive(Debug)]
pub(super) struct Executor {
    foreman: Arc<Foreman>,
    child: ChildId,
    _counted: Counted,
    /// The number of the executor in its pool, which `get_worker_info` shows to the code.
    index: u32,
    pid: u32,
    /// The socket to the process; `None` after the process was ended.
    socket: Option<Socket>,
    /// True after the process has reported that it has loaded the code.
    is_loaded: bool,
    regions: Regions,
    /// The leased regions of all unanswered requests, in order. `None` for requests that need no region.
    asked: VecDeque<Option<Lease>>,
    datagram: Vec<u8>,
    /// The size that the latest result took in a region, in bytes.
    expected_bytes: u64,
    /// The number of calls with an element.
    calls: u64,
    /// The number of calls with an element plus requests for further elements of iterables.
    requests: u64,
}

impl Executor {
    /// Starts a process, and waits until the process has loaded the code.
    ///
    /// # Errors
    /// Fails if the code cannot be loaded, which is the caller's mistake, or if the process cannot be started
    /// or has died.
    pub(super) fn start(
        foreman: Arc<Foreman>,
        index: u32,
        seed: u64,
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Executor, ExecError> {
        let broken = |error: io::Error| {
            ExecError::new(
                ErrorKind::Resource,
                NAME,
                format!("no process can be started for the code: {error}"),
            )
        };
        let (socket, other) = Socket::pair().map_err(broken)?;
        let (child, pid) = foreman.hire(index, seed, other.as_fd())?;
        drop(other);
        let mut executor = Executor {
            foreman,
            child,
            _counted: Counted::new(),
            index,
            pid,
            socket: Some(socket),
            is_loaded: false,
            regions: Regions::default(),
            asked: VecDeque::new(),
            datagram: Vec::new(),
            expected_bytes: 0,
            calls: 0,
            requests: 0,
        };
        let refused = |message| Err(ExecError::new(ErrorKind::Caller, NAME, message));
        match executor.wait(limits, LOADING.max(limits.deadline()), cancel) {
            Ok(()) => {}
            Err(ending) => return Err(not_loaded(ending)),
        }
        match wire::answer(&executor.datagram) {
            Ok(Answer::Ready) => {
                executor.is_loaded = true;
                Ok(executor)
            }
            Ok(Answer::Raised { said, traceback }) => {
                let failed = format!("the code cannot be loaded on the worker: {said}");
                Err(ExecError::new(ErrorKind::Caller, NAME, failed).with_traceback(traceback))
            }
            Ok(other) => refused(format!(
                "expected that its process reports ready, found {other:?}"
            )),
            Err(what) => refused(Gone::Garbled(what).to_string()),
        }
    }

    /// Returns the number of the executor in its pool.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of elements with which the executor was called.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the number of unanswered requests.
    pub(super) fn unanswered(&self) -> usize {
        self.asked.len()
    }

    /// Calls the function with an element. Without an input, requests the iterable's next element.
    pub(super) fn ask(&mut self, input: Option<&Input>, draw: u64) -> Result<(), Ending> {
        let input_bytes = input
            .filter(|input| input.needs_region())
            .map(Input::region_bytes);
        let wanted = input_bytes.unwrap_or(0).max(self.expected_bytes);
        if wanted > REGION_BYTES_MAX {
            let limit_bytes = REGION_BYTES_MAX;
            return Err(self.end(Gone::TooLarge {
                bytes: wanted,
                limit_bytes,
            }));
        }
        let leased = if wanted > 0 {
            Some(self.regions.lease(wanted))
        } else {
            None
        };
        let leased = leased.transpose().map_err(|error| self.refused(wanted, &error))?;
        let (mut lease, fd) = leased.map_or((None, None), |(lease, fd)| (Some(lease), fd));
        if let (Some(lease), Some(input), Some(_)) = (&mut lease, input, input_bytes) {
            input.write_to(lease.bytes_mut());
        }
        let retired = self.regions.retired();
        wire::call(input, named(lease.as_ref()), draw, &retired, &mut self.datagram);
        self.calls += u64::from(input.is_some());
        self.requests += 1;
        self.asked.push_back(lease);
        self.send(fd.as_ref().map(AsFd::as_fd))
    }

    /// Waits for the result of the oldest unanswered request, and returns the result.
    pub(super) fn answer(&mut self, limits: &Limits, cancel: &Cancel) -> Result<Value, Ending> {
        loop {
            self.wait(limits, limits.deadline(), cancel)?;
            let garbled = |what: String| Gone::Garbled(what);
            let made = match wire::answer(&self.datagram) {
                Ok(Answer::Need(bytes)) => {
                    self.give_region(bytes)?;
                    continue;
                }
                Ok(Answer::Raised { said, traceback }) => {
                    self.asked.pop_front();
                    return Err(Ending::Raised { said, traceback });
                }
                Ok(Answer::End) => {
                    self.asked.pop_front();
                    return Err(Ending::Exhausted);
                }
                Ok(Answer::Result(described, data)) => wire::inline_value(&described, data).map_err(garbled),
                Ok(Answer::ResultInRegion(described)) => {
                    let places = wire::region_places(&described);
                    self.expected_bytes = places.last().map_or(0, |(at, bytes)| at.saturating_add(*bytes));
                    let lease = self.asked.front_mut().and_then(Option::take);
                    let data = lease.and_then(|lease| self.regions.results(lease, &places));
                    data.ok_or_else(|| "parts outside of the shared memory".to_owned())
                        .and_then(|data| wire::value(&described, data))
                        .map_err(garbled)
                }
                Ok(Answer::Ready) => Err(Gone::Garbled("a second report that it is ready".to_owned())),
                Err(what) => Err(Gone::Garbled(what)),
            };
            self.asked.pop_front();
            return made.map_err(|gone| self.end(gone));
        }
    }

    /// Returns whether an answer, or the end of the process, arrives within `patience`.
    pub(super) fn is_about_to_answer(&self, patience: Duration) -> bool {
        let readable = self.socket.as_ref().map(|socket| socket.is_readable(patience));
        matches!(readable, Some(Ok(true)))
    }

    /// Returns whether the process exceeds its limits of memory or processes. Checks only once in a while.
    pub(super) fn is_swollen(&self, limits: &Limits) -> bool {
        self.requests.is_multiple_of(LOOK_AFTER_REQUESTS) && self.beyond(limits).is_some()
    }

    /// Requests further elements of the iterable until `ahead` requests are unanswered.
    pub(super) fn ask_ahead(&mut self, ahead: usize, limits: &Limits) -> Result<(), Ending> {
        while self.unanswered() < ahead {
            self.ask(None, 0)?;
            // Code may leak memory a little with each element, without any wait long enough for a regular
            // check.
            if self.requests.is_multiple_of(LOOK_AFTER_REQUESTS)
                && let Some(gone) = self.beyond(limits)
            {
                return Err(self.end(gone));
            }
        }
        Ok(())
    }

    fn give_region(&mut self, bytes: u64) -> Result<(), Ending> {
        if bytes > REGION_BYTES_MAX {
            let limit_bytes = REGION_BYTES_MAX;
            return Err(self.end(Gone::TooLarge { bytes, limit_bytes }));
        }
        if let Some(place) = self.asked.front_mut() {
            place.take();
        }
        let leased = self.regions.lease(bytes);
        let (lease, fd) = leased.map_err(|error| self.refused(bytes, &error))?;
        wire::region(named(Some(&lease)), &mut self.datagram);
        if let Some(place) = self.asked.front_mut() {
            *place = Some(lease);
        }
        self.send(fd.as_ref().map(AsFd::as_fd))
    }

    fn send(&mut self, fd: Option<std::os::fd::BorrowedFd<'_>>) -> Result<(), Ending> {
        let sent = self.socket.as_ref().map(|socket| socket.send(&self.datagram, fd));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(self.reaped()),
        }
    }

    /// Waits until a datagram has arrived.
    fn wait(&mut self, limits: &Limits, patience: Duration, cancel: &Cancel) -> Result<(), Ending> {
        let begun = Instant::now();
        loop {
            let Some(socket) = &self.socket else {
                return Err(Ending::Gone(Gone::Unknown));
            };
            match socket.receive(&mut self.datagram, LOOK_EVERY) {
                Ok(Some(())) if self.datagram.is_empty() => return Err(self.reaped()),
                Ok(Some(())) => return Ok(()),
                Ok(None) => {}
                Err(error) => return Err(self.lost(&error)),
            }
            // Processes that the executor started may still hold the executor's end of the socket, which may
            // contain a last answer.
            if descendants::has_ended(self.pid) {
                let last = socket.receive(&mut self.datagram, Duration::ZERO);
                let is_answer = matches!(last, Ok(Some(()))) && !self.datagram.is_empty();
                return is_answer.then_some(()).ok_or_else(|| self.reaped());
            }
            if cancel.is_cancelled() {
                return Err(Ending::Cancelled);
            }
            if begun.elapsed() >= patience {
                return Err(self.end(Gone::Deadline(patience)));
            }
            if let Some(gone) = self.beyond(limits) {
                return Err(self.end(gone));
            }
        }
    }

    /// Returns the limit that the process and its descendants exceed; `None` if they exceed no limit.
    fn beyond(&self, limits: &Limits) -> Option<Gone> {
        let limit_bytes = limits.memory_bytes;
        // A process that has ended uses no memory.
        let usage = descendants::usage(self.pid)?;
        if usage.processes > PROCESSES_MAX {
            return Some(Gone::Processes(PROCESSES_MAX));
        }
        let bytes = usage.private_bytes;
        (bytes > limit_bytes).then_some(Gone::Memory { bytes, limit_bytes })
    }

    /// Ends the process at once for the reason `why`.
    fn end(&mut self, why: Gone) -> Ending {
        let urgency = if matches!(why, Gone::Deadline(_)) {
            Urgency::Shown
        } else {
            Urgency::AtOnce
        };
        self.socket.take();
        // The foreman process may have ended, and has then ended the executor too.
        let _ = self.foreman.end(self.child, urgency);
        Ending::Gone(why)
    }

    /// Reaps a process that has closed its socket, and returns the reason for its end.
    fn reaped(&mut self) -> Ending {
        self.socket.take();
        let status = self.foreman.end(self.child, Urgency::Soon);
        Ending::Gone(status.map_or(Gone::Unknown, Gone::of_status))
    }

    fn refused(&mut self, bytes: u64, error: &io::Error) -> Ending {
        let why = error.to_string();
        self.end(Gone::NoSharedMemory { bytes, why })
    }

    fn lost(&mut self, error: &io::Error) -> Ending {
        self.end(Gone::Garbled(error.to_string()))
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // The process ends when its socket is closed, unless it is loading or running the user's code.
        if self.socket.take().is_some() {
            let urgency = if self.is_loaded && self.asked.is_empty() {
                Urgency::Soon
            } else {
                Urgency::AtOnce
            };
            let _ = self.foreman.end(self.child, urgency);
        }
    }
}

fn named(lease: Option<&Lease>) -> RegionName {
    lease.map_or_else(RegionName::default, |lease| RegionName {
        id: lease.id(),
        bytes: lease.size_bytes(),
    })
}

fn not_loaded(ending: Ending) -> ExecError {
    match ending {
        Ending::Cancelled => ExecError::cancelled(NAME),
        Ending::Gone(gone) => {
            let kind = if gone.is_worth_another_attempt() {
                ErrorKind::Resource
            } else {
                ErrorKind::Caller
            };
            ExecError::new(kind, NAME, format!("while the code was being loaded: {gone}"))
        }
        Ending::Raised { said, traceback } => super::params::raised(said, traceback),
        Ending::Exhausted => ExecError::new(
            ErrorKind::Internal,
            NAME,
            "expected that the code is loaded, found the end of an iterable",
        ),
    }
}
