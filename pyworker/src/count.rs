//! The number of executor processes of this process, for people.

use std::sync::atomic::{AtomicU64, Ordering};

static RUNNING: AtomicU64 = AtomicU64::new(0);

/// The part of an executor that counts it. Dropping the value ends the counting.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) struct Counted(());

#[cfg(target_os = "linux")]
impl Counted {
    pub(super) fn new() -> Counted {
        // Relaxed: the count only serves people, and orders nothing.
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Counted(())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of Python processes that this process has started and not ended.
pub fn python_processes() -> u64 {
    RUNNING.load(Ordering::Relaxed)
}
