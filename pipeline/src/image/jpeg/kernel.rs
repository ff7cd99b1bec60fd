//! The arithmetic that takes most of the decoding time, in one form for any processor and in one form for
//! newer processors. All forms have equal results.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{colours, idct};

/// One form of the arithmetic.
pub(super) trait Kernel {
    /// Writes the pixels of a block to eight rows of `out`, which are `stride` bytes apart. The first row
    /// begins at the start of `out`. Products with `factors` are modulo 2^16. Numbers between the passes
    /// saturate to 16 bits, which only corrupt pictures exceed.
    fn block(coefficients: &[i16; 64], factors: &[i16; 64], out: &mut [u8], stride: usize);

    /// Converts YCbCr to RGB, for as many pixels as the shortest slice has.
    fn colours(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [[u8; 3]]);
}

/// The form for any processor.
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
