//! The format JPEG. Baseline pictures in one scan, which most cameras and data sets produce, are decoded
//! here, and only in the wanted area. A library decodes all other pictures as a whole.
//!
//! - `picture`: a JPEG of either kind;
//! - `header`: the header of a picture that is decoded here, or none for other pictures;
//! - `bits`, `huffman`: the entropy-coded numbers;
//! - `scan`: the blocks of a picture, of which those outside of an area are skipped;
//! - `idct`: the pixels of a block;
//! - `pixels`: the pixels of an area; `colours`: the conversion from YCbCr to RGB;
//! - `render`: the conversion of component rows to rows of colours;
//! - `kernel`: the arithmetic that takes the most time, in several forms; `wide`: the form for newer
//!   processors;
//! - `spare`: memory that threads reuse from picture to picture;
//! - `other`: JPEGs of other kinds, which `zune-jpeg` decodes.
//!
//! The arithmetic is that of libjpeg: the slow integer transform, triangular upsampling, and libjpeg's
//! conversion of colours. Pixels are equal, bit for bit, to the pixels of libjpeg-turbo, and thus of Pillow,
//! torchvision and TensorFlow.

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
