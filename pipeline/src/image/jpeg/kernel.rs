//! The arithmetic that most of the time goes into, in a form for any processor and one for newer ones. All
//! forms come to the same.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{colours, idct};

/// One form.
pub(super) trait Kernel {
    /// Writes the pixels of a block to eight rows of `out`, `stride` apart, of which the first begins with
    /// it. Factors are multiplied modulo 2^16, and what lies between the passes keeps to 16 bits, beyond
    /// which no picture gets that is not corrupt.
    fn block(coefficients: &[i16; 64], factors: &[i16; 64], out: &mut [u8], stride: usize);

    /// YCbCr to RGB, for as many pixels as the shortest has.
    fn colours(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [[u8; 3]]);
}

/// For any processor.
pub(super) struct Plain;

impl Kernel for Plain {
    #[inline(always)]
    fn block(coefficients: &[i16; 64], factors: &[i16; 64], out: &mut [u8], stride: usize) {
        idct::block(coefficients, factors, out, stride);
    }

    #[inline(always)]
    fn colours(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [[u8; 3]]) {
        colours::colours(luma, blue, red, out);
    }
}
