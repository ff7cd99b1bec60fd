//! The conversion of colours from YCbCr to RGB, with results equal to those of libjpeg, bit for bit.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Converts YCbCr to RGB, for as many pixels as the shortest slice has.
#[inline(always)]
pub(super) fn colours(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [[u8; 3]]) {
    let pixels = luma.iter().zip(blue).zip(red);
    for (out, ((y, cb), cr)) in out.iter_mut().zip(pixels) {
        let (y, cb, cr) = (i16::from(*y), i16::from(*cb) - 128, i16::from(*cr) - 128);
        // The factors 1.402, -0.34414, -0.71414 and 1.772 are in units of 2^-16, rounded. The integer parts
        // of the factors are applied separately, so that 16 bits suffice.
        let r = y + cr + high(cr, 26345);
        let g = y - cr + ((-22554 * i32::from(cb) + 18734 * i32::from(cr) + 32768) >> 16) as i16;
        let b = y + 2 * cb + high(cb, -14942);
        *out = [r, g, b].map(|value| value.clamp(0, 255) as u8);
    }
}

/// Computes `(value * factor + 2^15) >> 16` for a value of 9 bits. The product of twice the value is halved
/// afterwards, because processors have an instruction for the high half of a product.
#[inline(always)]
fn high(value: i16, factor: i16) -> i16 {
    let product = ((i32::from(2 * value) * i32::from(factor)) >> 16) as i16;
    (product + 1) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_libjpegs_formula() {
        let clamp = |value: i32| value.clamp(0, 255) as u8;
        for cb in 0..=255u8 {
            for cr in 0..=255u8 {
                let (blue, red) = (i32::from(cb) - 128, i32::from(cr) - 128);
                for y in [0u8, 1, 100, 128, 254, 255] {
                    let mut found = [[0; 3]];
                    colours(&[y], &[cb], &[cr], &mut found);
                    let y = i32::from(y);
                    let expected = [
                        clamp(y + ((91881 * red + 32768) >> 16)),
                        clamp(y + ((-22554 * blue - 46802 * red + 32768) >> 16)),
                        clamp(y + ((116_130 * blue + 32768) >> 16)),
                    ];
                    assert_eq!(found, [expected], "{y} {cb} {cr}");
                }
            }
        }
    }
}
