//! The sleep for systems whose kernel cannot wait at several places. Without that ability no thread sleeps in
//! a [`Nap`], and waiting threads are woken by other means.

use std::time::Duration;

/// A place to sleep at. No value of this type exists on this system.
#[derive(Debug, Clone)]
pub enum Doorbell {}

/// The place where a thread would sleep.
#[derive(Debug, Default)]
pub struct Nap;

impl Nap {
    /// Returns false, because this system cannot wait at several places.
    pub fn is_supported() -> bool {
        false
    }

    /// Does nothing. Callers check [`Nap::is_supported`] first.
    pub fn begin(&self) {}

    /// Does nothing, because no thread sleeps here.
    pub fn wake(&self) {}

    /// Does nothing. Callers check [`Nap::is_supported`] first.
    pub fn sleep(&self, _doorbells: &[Doorbell], _timeout: Duration) {}

    /// Does nothing. Callers check [`Nap::is_supported`] first.
    pub fn give_up(&self) {}
}
