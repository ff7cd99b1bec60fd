//! Pictures: decoding of encoded bytes to pixels, and operations on pixels. This module does not know
//! elements, operations or files.
//!
//! - [`Encoded`] is a picture whose size is known and that is not decoded yet; it decodes the whole picture,
//!   or an [`Area`];
//! - `resize`, `crop`, `flip`, `colour` and `layout` work on pixels in memory: rows from top to bottom, with
//!   the channels of a pixel side by side.

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
