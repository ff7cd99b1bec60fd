//! The computation of expressions, on whole tensors at a time.
//!
//! - [`Formula`] holds expressions that are ready to be computed for any number of elements, from any thread;
//! - `compute` chooses the kernel of each operation, and the other files compute;
//! - [`items`] reads and writes items of tensors, and [`broadcast`] walks tensors of different shapes.

mod arithmetic;
mod broadcast;
mod cast;
mod compute;
mod formula;
mod items;
mod kernel;
mod number;
mod pad;
mod reduce;
mod shaping;
mod strided;
mod strings;
mod text;

pub(crate) use formula::{Formula, Verdict};
#[cfg(feature = "text")]
pub(crate) use text::number_of;
pub(crate) use text::parts;
