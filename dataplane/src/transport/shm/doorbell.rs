//! The word on which a thread sleeps until the other process wakes the thread.
//!
//! The module owns the view of the word as a futex. The reason for the sleep is unknown to it;
//! [`Nap`](crate::transport::Nap) sleeps at several doorbells.
#![expect(
    unsafe_code,
    reason = "a futex is a word of 32 bits, and shared memory is seen as words of 64"
)]

use std::sync::atomic::AtomicU32;

use rustix::thread::futex;

use super::control::Control;
use super::wait;
use super::words::Words;

/// The index of the 32-bit half of a 64-bit word that holds the low bits.
const LOW_HALF: usize = if cfg!(target_endian = "big") { 1 } else { 0 };

/// A word of a link's control memory at which a thread of one side sleeps. The doorbell keeps the memory
/// mapped.
#[derive(Debug, Clone)]
pub struct Doorbell {
    control: Control,
    at: usize,
}

impl Doorbell {
    pub(super) fn new(control: Control, at: usize) -> Self {
        Self { control, at }
    }

    /// Wakes the thread that sleeps at this word.
    pub(super) fn ring(&self) {
        // The only possible error is an invalid address, at which no thread can sleep.
        let _ = futex::wake(self.futex(), futex::Flags::empty(), 1);
    }

    /// Returns the value of the futex while a thread may sleep at it.
    pub(in crate::transport) fn asleep(&self) -> u64 {
        wait::RAISED
    }

    /// Returns the futex of the doorbell. Callers use only its address; the kernel reads its value.
    pub(in crate::transport) fn futex(&self) -> &AtomicU32 {
        let word = &self.control.words()[self.at];
        // SAFETY: both halves are inside the word, are aligned for 32 bits, and live as long as the mapping
        // that `self` keeps. This process accesses the word only as 64 bits; it uses the half only as an
        // address.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast::<u32>().add(LOW_HALF)) }
    }
}
