//! The reasons why a call has no result, in sentences for the author of the code: the cause, the events, and
//! the remedy. This file does not know how a reason was found.

use std::fmt;
use std::time::Duration;

use millstream_pipeline::exec::{ErrorKind, ExecError};

use super::params::NAME;

/// The reason why a call has no result.
#[derive(Debug)]
pub(super) enum Ending {
    /// The code raised an exception. The executor can be called again.
    Raised { said: String, traceback: String },
    /// The iterable has no further element.
    Exhausted,
    /// The executor has ended, and its current work is lost.
    Gone(Gone),
    /// The caller cancelled the call.
    Cancelled,
}

/// The reason for the end of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gone {
    /// The executor exited by itself, with this status.
    Exited(i32),
    /// A signal with this number ended the executor.
    Killed(i32),
    /// The executor exceeded the deadline, and was killed.
    Deadline(Duration),
    /// The executor exceeded the memory limit, and was killed.
    Memory { bytes: u64, limit_bytes: u64 },
    /// The executor exceeded the limit of processes. The executor and these processes were killed.
    Processes(usize),
    /// The result exceeds the size limit of elements.
    TooLarge { bytes: u64, limit_bytes: u64 },
    /// The system refused memory to share with the executor.
    NoSharedMemory { bytes: u64, why: String },
    /// The executor sent bytes that are not a valid answer.
    Garbled(String),
    /// The reason is unknown, because the foreman process of the executor has ended too.
    Unknown,
}

impl Gone {
    /// Returns the reason for an exit status: an exit code, or a negative signal number.
    pub(super) fn of_status(status: i32) -> Gone {
        if status < 0 {
            Gone::Killed(-status)
        } else {
            Gone::Exited(status)
        }
    }

    /// Returns whether another process might succeed. A signal may have been meant for another process or for
    /// another reason.
    pub(super) fn is_worth_another_attempt(&self) -> bool {
        matches!(self, Gone::Killed(_) | Gone::Unknown)
    }

    /// Makes the failure of the user's function after this number of attempts.
    pub(super) fn failure(&self, attempts: u32) -> ExecError {
        let message = match attempts {
            0 | 1 => self.to_string(),
            attempts => format!("{self}; {attempts} processes failed one after another"),
        };
        ExecError::new(self.kind(), NAME, message)
    }

    /// Makes the failure of an iterable after `delivered` elements were delivered. The iterable cannot be
    /// restarted without repeating or losing elements, because its position is lost with its process.
    pub(super) fn failure_after(&self, delivered: u64) -> ExecError {
        let message = format!(
            "{self}; its iterable had yielded {delivered} elements, which are not repeated, and its remaining elements are lost"
        );
        ExecError::new(self.kind(), NAME, message)
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Gone::NoSharedMemory { .. } => ErrorKind::Resource,
            Gone::Exited(_)
            | Gone::Killed(_)
            | Gone::Deadline(_)
            | Gone::Memory { .. }
            | Gone::Processes(_)
            | Gone::TooLarge { .. }
            | Gone::Garbled(_)
            | Gone::Unknown => ErrorKind::UserFunction,
        }
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gone::Exited(status) => write!(
                f,
                "the code ended its own process with status {status}, as os._exit does: raise an exception instead"
            ),
            Gone::Killed(9) => f.write_str(
                "its process was killed by SIGKILL, by a user or by the system: if the system ran out of memory, limit the process by \
                 memory_bytes",
            ),
            Gone::Killed(signal) => write!(
                f,
                "its process crashed with {}; the worker's log shows the place of the crash",
                Signal(*signal)
            ),
            Gone::Deadline(limit) => write!(
                f,
                "the code did not return within {limit:?} (deadline_s), and its process was killed; the worker's log shows the place where the code hung"
            ),
            Gone::Memory { bytes, limit_bytes } => write!(
                f,
                "its process and the processes that it had started took {} MiB of memory, more than the limit of {} MiB (memory_bytes), and were killed",
                bytes >> 20,
                limit_bytes >> 20
            ),
            Gone::Processes(limit) => write!(
                f,
                "its process had started more than {limit} processes, itself included; all of them were killed"
            ),
            Gone::TooLarge { bytes, limit_bytes } => write!(
                f,
                "the code yielded an element of {bytes} bytes, but the limit is {limit_bytes} bytes: yield smaller elements"
            ),
            Gone::NoSharedMemory { bytes, why } => write!(
                f,
                "the system refused {bytes} bytes of memory to share with its process: {why}; check the worker's limits of files and \
                 memory (ulimit -f, -v, -n)"
            ),
            Gone::Garbled(what) => write!(
                f,
                "its process sent an invalid answer ({what}): check that the code does not write to file descriptors that it did not open"
            ),
            Gone::Unknown => f.write_str("its process and the foreman process that started it have ended: both were killed"),
        }
    }
}

/// A signal, displayed by its name.
struct Signal(i32);

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            4 => "SIGILL",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            11 => "SIGSEGV",
            15 => "SIGTERM",
            other => return write!(f, "signal {other}"),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_who_may_retry() {
        for (gone, said, again) in [
            (Gone::of_status(-11), "SIGSEGV", true),
            (Gone::of_status(-9), "SIGKILL", true),
            (Gone::of_status(-40), "signal 40", true),
            (Gone::of_status(3), "status 3", false),
            (Gone::Deadline(Duration::from_millis(1500)), "1.5s", false),
            (
                Gone::Memory {
                    bytes: 5 << 20,
                    limit_bytes: 3 << 20,
                },
                "5 MiB of memory, more than the limit of 3 MiB",
                false,
            ),
        ] {
            assert!(gone.to_string().contains(said), "{gone}");
            assert_eq!(gone.is_worth_another_attempt(), again, "{gone}");
        }
        let after = Gone::Killed(9).failure_after(7).to_string();
        assert!(
            after.contains("SIGKILL") && after.contains("yielded 7 elements"),
            "{after}"
        );
        assert!(Gone::Unknown.failure(3).to_string().contains("3 processes"));
    }
}
