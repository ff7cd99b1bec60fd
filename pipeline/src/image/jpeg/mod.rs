//! JPEG. What cameras and data sets have as a rule, baseline pictures in one scan, is decoded here, and only
//! where it is wanted; everything else is left to a library, which decodes the whole.
//!
//! - `picture`: a JPEG, of either kind;
//! - `header`: which of the two a picture is;
//! - `bits`, `huffman`: the entropy-coded numbers;
//! - `scan`: the blocks of a picture, those outside of an area passed over;
//! - `idct`: a block's pixels;
//! - `pixels`: the pixels of an area; `colours`: from YCbCr to RGB;
//! - `render`: rows of colours from rows of components;
//! - `kernel`: what takes the most time, in several forms; `wide`: the one for newer processors;
//! - `spare`: memory for all of these;
//! - `other`: JPEGs of other kinds, by `zune-jpeg`.
//!
//! The arithmetic is that of libjpeg: the slow integer transform, triangular upsampling, its conversion of
//! colours. Pixels are equal, bit by bit, to those of libjpeg-turbo, and so of Pillow, torchvision and
//! TensorFlow.

mod bits;
mod colours;
mod header;
mod huffman;
mod idct;
mod kernel;
mod other;
mod picture;
mod pixels;
mod render;
mod scan;
mod spare;
#[cfg(target_arch = "x86_64")]
mod wide;

pub(super) use picture::Jpeg;
