//! Long waits that react to Ctrl-C and let other Python threads run.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::{failure, notices};

/// The interval at which a blocked thread checks for signals, and thus the maximum delay of Ctrl-C.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work` on its own thread and waits for the result. On a signal, calls `give_up`, which must make
/// `work` end soon, and raises the exception of Python's signal handler.
///
/// # Errors
/// The exception of the signal handler, or `ResourceExhaustedError` if the system refuses to start a thread.
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
                    format!("cannot start a thread: {error}"),
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
                        // The scope waits for the thread, and must not hold the interpreter's lock meanwhile.
                        py.detach(move || drop(told.recv()));
                        return Err(interrupt);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err(
                        "a bug in Millstream: a thread panicked; the panic's message is printed above",
                    ));
                }
            }
        }
    })
}
