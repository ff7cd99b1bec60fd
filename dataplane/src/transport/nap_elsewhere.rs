//! Where no kernel waits at several places: nobody naps, and whoever waits is woken as everywhere else.

use std::time::Duration;

/// A place to sleep at, of which there are none here.
#[derive(Debug, Clone)]
pub enum Doorbell {}

/// Where one thread sleeps.
#[derive(Debug, Default)]
pub struct Nap;

impl Nap {
    /// Never, here.
    pub fn is_supported() -> bool {
        false
    }

    /// Not called where it is not supported.
    pub fn begin(&self) {}

    /// Nobody naps.
    pub fn wake(&self) {}

    /// Not called where it is not supported.
    pub fn sleep(&self, _doorbells: &[Doorbell], _timeout: Duration) {}

    /// Not called where it is not supported.
    pub fn give_up(&self) {}
}
