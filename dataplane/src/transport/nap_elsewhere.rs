//! The sleep for systems whose kernel cannot wait at several places: no thread sleeps here, and waiting
//! threads are woken as everywhere else.

use std::time::Duration;

/// A place to sleep at, of which there are none here.
#[derive(Debug, Clone)]
pub enum Doorbell {}

/// The place where one thread would sleep.
#[derive(Debug, Default)]
pub struct Nap;

impl Nap {
    /// Never, here.
    pub fn is_supported() -> bool {
        false
    }

    /// Not called where it is not supported.
    pub fn begin(&self) {}

    /// Does nothing, because no thread sleeps here.
    pub fn wake(&self) {}

    /// Not called where it is not supported.
    pub fn sleep(&self, _doorbells: &[Doorbell], _timeout: Duration) {}

    /// Not called where it is not supported.
    pub fn give_up(&self) {}
}
