//! Tuning by measurement of settings that are left open (`AUTO`).
//!
//! - [`threads`]: how many calls each map makes at once: pure;
//! - [`Buffer`]: how many elements a prefetch holds: pure;
//! - [`Readers`]: how many datasets an interleave reads ahead: pure;
//! - [`Tuner`], [`Knob`]: the measurements of the maps of one pipeline, and when they are looked at.

mod buffer;
mod readers;
mod threads;
mod tuner;

pub(crate) use buffer::Buffer;
pub(crate) use readers::{READERS_AT_FIRST, Readers};
pub(crate) use tuner::{Knob, Tuner};
