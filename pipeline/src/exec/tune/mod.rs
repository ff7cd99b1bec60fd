//! Tuning of settings that are left open (`AUTO`), by measurement.
//!
//! - [`threads`]: the number of calls that each map makes at once; a pure module;
//! - [`Buffer`]: the number of elements that a prefetch buffers; a pure module;
//! - [`Readers`]: the number of datasets that an interleave reads ahead; a pure module;
//! - [`Tuner`], [`Knob`]: the measurements of the maps of one pipeline, and the times at which they are
//!   evaluated.

mod buffer;
mod readers;
mod threads;
mod tuner;

pub(crate) use buffer::Buffer;
pub(crate) use readers::{READERS_AT_FIRST, Readers};
pub(crate) use tuner::{Knob, Tuner};
