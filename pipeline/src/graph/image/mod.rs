//! The functions of pictures: their parameters, encodings, rules and specs. What they do to pixels is
//! `exec`'s.
//!
//! A picture is a tensor `[height, width, channels]`: of `u8` as decoded, or of any other type where a
//! function says so.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod builder;
mod check;
mod codec;
mod colour;
mod decode;
mod function;
mod geometry;
mod spec;

pub use colour::{ColorJitter, Grayscale, HwcToChw, Normalize};
pub use decode::DecodeImage;
pub use function::ImageFunction;
pub use geometry::{
    CenterCrop, CentralCrop, Crop, Flip, FlipAxis, RandomCrop, RandomResizedCrop, Resize, ResizeMethod,
};

#[cfg(feature = "images")]
pub(crate) use spec::kept;
