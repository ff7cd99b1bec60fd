//! The functions of pictures: their parameters, encodings, checks and specs. The computation of pixels is in
//! `exec`.
//!
//! A picture is a tensor `[height, width, channels]`. A decoded picture has the dtype `u8`; some functions
//! take pictures of other dtypes.
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
