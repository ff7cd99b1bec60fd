//! Pictures: from encoded bytes to pixels, and what is made of pixels. Knows nothing of elements, operations
//! or files.
//!
//! - [`Encoded`] is a picture of which the size is known and nothing is decoded yet; it decodes all of it, or
//!   an [`Area`];
//! - `resize`, `crop`, `flip`, `colour` and `layout` work on pixels side by side: rows from top to bottom,
//!   the channels of a pixel next to each other.

mod area;
pub(crate) mod colour;
mod decode;
mod decoded;
pub(crate) mod flip;
mod jpeg;
pub(crate) mod layout;
mod png;
pub(crate) mod resize;
mod webp;

pub(crate) use area::Area;
pub(crate) use decode::Encoded;
pub(crate) use decoded::Decoded;
