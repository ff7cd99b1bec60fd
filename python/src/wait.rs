//! Long waits that react to Ctrl-C and let other threads of Python run.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::{failure, notices};

/// How often a blocked thread looks for signals: how late Ctrl-C may be heard.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own and waits for it. A signal calls `give_up`, which must make `work` end
/// soon, and raises what Python's handler raises.
///
/// # Errors
/// What a signal's handler raises; the system gives no thread.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    give_up: impl Fn(),
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    std::thread::scope(|scope| {
        let (tell, mut told) = sync_channel(1);
        std::thread::Builder::new()
            .spawn_scoped(scope, move || tell.send(work()))
            .map_err(|error| {
                failure::raise(
                    "ResourceExhaustedError",
                    format!("the system gives no thread: {error}"),
                )
            })?;
        loop {
            let (received, back) = py.detach(move || (told.recv_timeout(LOOK_EVERY), told));
            told = back;
            match received {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(interrupt) = py.check_signals().and_then(|()| notices::say(py)) {
                        give_up();
                        // The scope waits for the thread; the lock of the interpreter must not be held
                        // meanwhile.
                        py.detach(move || drop(told.recv()));
                        return Err(interrupt);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err(
                        "a defect of Millstream: a thread panicked; its message stands above",
                    ));
                }
            }
        }
    })
}
