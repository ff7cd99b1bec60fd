//! The word on which a thread sleeps until the other process wakes it.
//!
//! Owns the view of that word as a futex. Refuses to know what one sleeps for; [`Nap`](crate::transport::Nap)
//! sleeps at several.
#![expect(
    unsafe_code,
    reason = "a futex is a word of 32 bits, and shared memory is seen as words of 64"
)]

use std::sync::atomic::AtomicU32;

use rustix::thread::futex;

use super::control::Control;
use super::wait;
use super::words::Words;

/// The half of a word of 64 bits that has its low bits.
const LOW_HALF: usize = if cfg!(target_endian = "big") { 1 } else { 0 };

/// A word of a link's control memory, at which a thread of one side sleeps. Keeps that memory mapped.
#[derive(Debug, Clone)]
pub struct Doorbell {
    control: Control,
    at: usize,
}

impl Doorbell {
    pub(super) fn new(control: Control, at: usize) -> Self {
        Self { control, at }
    }

    /// Wakes who sleeps here.
    pub(super) fn ring(&self) {
        // An error would mean that the address is none: then nobody sleeps there.
        let _ = futex::wake(self.futex(), futex::Flags::empty(), 1);
    }

    /// Returns the value of the futex while a thread may sleep at it.
    pub(in crate::transport) fn asleep(&self) -> u64 {
        wait::RAISED
    }

    /// The address is all it is used for here; its value is read by the kernel.
    pub(in crate::transport) fn futex(&self) -> &AtomicU32 {
        let word = &self.control.words()[self.at];
        // SAFETY: both halves lie within the word, are aligned as 32 bits need it, and live as long as the
        // mapping that `self` keeps. This process accesses the word as 64 bits alone; through the half it
        // only names the address.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast::<u32>().add(LOW_HALF)) }
    }
}
