//! Why a call has no result, in words for the author of the code: who is to blame, what happened, what to do.
//! Refuses to know how it was found out.

use std::fmt;
use std::time::Duration;

use millstream_pipeline::exec::{ErrorKind, ExecError};

use super::params::NAME;

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Ending {
    /// The code raised, and the executor can be called again.
    Raised { said: String, traceback: String },
    /// The iterable has no further element.
    Exhausted,
    /// The executor is gone, and with it what it worked on.
    Gone(Gone),
    /// The caller does not wait any more.
    Cancelled,
}

/// The end of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gone {
    /// The executor exited by itself.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// The executor took too long, and was ended.
    Deadline(Duration),
    /// The executor took too much memory, and was ended.
    Memory { bytes: u64, limit_bytes: u64 },
    /// The executor started more processes than code may, and was ended with them.
    Processes(usize),
    /// The result is larger than an element may be.
    TooLarge { bytes: u64, limit_bytes: u64 },
    /// The system gives no memory to share with it.
    NoSharedMemory { bytes: u64, why: String },
    /// The executor sent bytes that are no answer.
    Garbled(String),
    /// The end is unknown, because the supervisor of the executor is gone as well.
    Unknown,
}

impl Gone {
    /// Returns the end that a status of `waitpid` means: the code of an exit, or less than 0 for a signal.
    pub(super) fn of_status(status: i32) -> Gone {
        if status < 0 {
            Gone::Killed(-status)
        } else {
            Gone::Exited(status)
        }
    }

    /// Returns whether another process might come through: whatever killed this one may have meant something
    /// else.
    pub(super) fn is_worth_another_attempt(&self) -> bool {
        matches!(self, Gone::Killed(_) | Gone::Unknown)
    }

    /// Returns the failure of the user's function, after so many attempts.
    pub(super) fn failure(&self, attempts: u32) -> ExecError {
        let message = match attempts {
            0 | 1 => self.to_string(),
            attempts => format!("{self}; so did {attempts} processes, one after the other"),
        };
        ExecError::new(self.kind(), NAME, message)
    }

    /// Returns the failure of an iterable of which so many elements were delivered. Its position went with
    /// its process, so it cannot be begun again without repeating or losing elements.
    pub(super) fn failure_after(&self, delivered: u64) -> ExecError {
        let message = format!(
            "{self}; its iterable had yielded {delivered} elements, which are not repeated, and the rest of it is lost"
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
                "its process was killed by SIGKILL: by somebody, or by the system, where memory has run out (limit it by \
                 memory_bytes)",
            ),
            Gone::Killed(signal) => write!(
                f,
                "its process crashed with {}; where, the log of the worker says",
                Signal(*signal)
            ),
            Gone::Deadline(limit) => write!(
                f,
                "did not return within {limit:?} (deadline_s), and its process was ended; where it hung, the log of the worker says"
            ),
            Gone::Memory { bytes, limit_bytes } => write!(
                f,
                "its process and those that it had started took {} MiB of memory, more than the {} MiB that it may (memory_bytes), and was ended",
                bytes >> 20,
                limit_bytes >> 20
            ),
            Gone::Processes(limit) => write!(
                f,
                "its process had more than {limit} processes running, itself included, and was ended with them"
            ),
            Gone::TooLarge { bytes, limit_bytes } => write!(
                f,
                "yields an element of {bytes} bytes; it may have {limit_bytes} at most: yield it in parts"
            ),
            Gone::NoSharedMemory { bytes, why } => write!(
                f,
                "the system gives no {bytes} bytes of memory to share with its process: {why}; what a worker's files and memory may \
                 have (ulimit -f, -v, -n) limits it"
            ),
            Gone::Garbled(what) => write!(
                f,
                "its process said what is no answer ({what}): does the code write to descriptors that are not its own?"
            ),
            Gone::Unknown => f.write_str("its process is gone, and so is the one that started it: both were killed"),
        }
    }
}

/// A signal by its name.
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

/// Returns the failure of the user's function for an exception of the code.
pub(super) fn raised(said: String, traceback: String) -> ExecError {
    ExecError::new(ErrorKind::UserFunction, NAME, said).with_traceback(traceback)
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
                "5 MiB of memory, more than the 3 MiB",
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
