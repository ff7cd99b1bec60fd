//! Guards for a forked child, which lacks the threads of its parent and must not use the parent's sockets and
//! locks.
//!
//! The fork handler runs in the child and only increments a counter. The handler runs for every fork, also
//! for forks outside of Python.
#![expect(unsafe_code, reason = "a fork handler is a C function")]

use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The number of forks between the first process and this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of forks between the process that loaded this module and this process.
#[pyfunction]
pub(crate) fn generation() -> u32 {
    static HOOK: Once = Once::new();
    // A completed `Once` costs one load. A process that forks during the call has created no value yet that a
    // child could inherit.
    HOOK.call_once(|| {
        // SAFETY: the handler touches one atomic, which is allowed in the child of a process with threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value that belongs to the process that created it. A forked child neither uses nor drops the value,
/// because the value's threads do not exist there and its locks may be held for ever.
#[derive(Debug)]
pub(crate) struct Here<T> {
    value: ManuallyDrop<T>,
    born: u32,
}

impl<T> Here<T> {
    /// Creates a value of this process.
    pub(crate) fn new(value: T) -> Here<T> {
        Here {
            value: ManuallyDrop::new(value),
            born: generation(),
        }
    }

    /// Returns whether this process created the value.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.born == GENERATION.load(Ordering::Relaxed)
    }

    /// Returns the value, if this process created it.
    ///
    /// # Errors
    /// `RuntimeError` in a forked child.
    #[inline]
    pub(crate) fn get(&self, what: &str) -> PyResult<&T> {
        if self.is_here() {
            return Ok(&self.value);
        }
        Err(PyRuntimeError::new_err(format!(
            "this {what} was made before the process was forked, and its connections stayed with the parent: create it again in \
             the child, or start processes by spawn or forkserver"
        )))
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the value is dropped once, in this place, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Returns a leaked value of this generation, or `None` for a value of another generation.
pub(crate) fn of_generation<T>(leaked: *const (u32, T), generation: u32) -> Option<&'static T> {
    // SAFETY: a pointer that is not null comes from a leaked box, and nothing writes to the value.
    let leaked = unsafe { leaked.as_ref() }?;
    (leaked.0 == generation).then_some(&leaked.1)
}
