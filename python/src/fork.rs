//! Guards for a forked child, whose threads, sockets and locks stayed with its parent.
//!
//! A child handler of `fork` does nothing but count, and so runs for every fork, also those that Python does
//! not make.
#![expect(unsafe_code, reason = "the system's hook of fork takes a function of C")]

use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many forks lie between the process that loaded this module and this one.
#[pyfunction]
pub(crate) fn generation() -> u32 {
    static HOOK: Once = Once::new();
    // A `Once` that is done is a load; a program that forks while it runs has made nothing yet that could be
    // inherited.
    HOOK.call_once(|| {
        // SAFETY: the handler touches one atomic, which is allowed in the child of a process with threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value of the process that made it. In a forked child it is neither used nor dropped: its threads are not
/// there, and its locks may be held for ever.
#[derive(Debug)]
pub(crate) struct Here<T> {
    value: ManuallyDrop<T>,
    born: u32,
}

impl<T> Here<T> {
    /// Makes a value of this process.
    pub(crate) fn new(value: T) -> Here<T> {
        Here {
            value: ManuallyDrop::new(value),
            born: generation(),
        }
    }

    /// Returns whether it was made by this process.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.born == GENERATION.load(Ordering::Relaxed)
    }

    /// The value, in the process that made it.
    ///
    /// # Errors
    /// `RuntimeError` in a forked child.
    #[inline]
    pub(crate) fn get(&self, what: &str) -> PyResult<&T> {
        if self.is_here() {
            return Ok(&self.value);
        }
        Err(PyRuntimeError::new_err(format!(
            "this {what} was made before the process was forked, and its connections stayed with the parent: make it again in \
             the child, or start processes by spawn or forkserver"
        )))
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// A leaked value, if it is of this generation.
pub(crate) fn of_generation<T>(leaked: *const (u32, T), generation: u32) -> Option<&'static T> {
    // SAFETY: a pointer that is not null comes from a box that was leaked, and nobody writes to it.
    let leaked = unsafe { leaked.as_ref() }?;
    (leaked.0 == generation).then_some(&leaked.1)
}
