//! The grey value of a colour, by the weights of ITU-R BT.601.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Returns the grey value of a colour: `0.299 R + 0.587 G + 0.114 B`, rounded to the nearest integer.
#[inline]
pub(crate) fn grey(r: u8, g: u8, b: u8) -> u8 {
    // The weights are in units of 2^-16: 19595 + 38470 + 7471 is 2^16.
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + (1 << 15)) >> 16) as u8
}

/// Writes the grey value of every pixel of three channels, as `channels` equal channels.
pub(crate) fn to_grey(pixels: &[u8], channels: u8, destination: &mut [u8]) {
    let colours = pixels.as_chunks::<3>().0;
    if channels == 1 {
        for (to, [r, g, b]) in destination.iter_mut().zip(colours) {
            *to = grey(*r, *g, *b);
        }
    } else {
        for (to, [r, g, b]) in destination.as_chunks_mut::<3>().0.iter_mut().zip(colours) {
            *to = [grey(*r, *g, *b); 3];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn grey_is_the_weighted_mean_rounded(pixels in prop::collection::vec(any::<[u8; 3]>(), 1..50)) {
            let expected: Vec<u8> = pixels
                .iter()
                .map(|[r, g, b]| {
                    (0.299 * f64::from(*r) + 0.587 * f64::from(*g) + 0.114 * f64::from(*b)).round() as u8
                })
                .collect();
            let (mut one, mut three) = (vec![0; pixels.len()], vec![0; pixels.len() * 3]);
            to_grey(pixels.as_flattened(), 1, &mut one);
            to_grey(pixels.as_flattened(), 3, &mut three);
            for ((one, three), expected) in one.iter().zip(three.as_chunks::<3>().0).zip(expected) {
                // A sum within 2^-14 of a half may be rounded in either direction.
                prop_assert!(one.abs_diff(expected) <= 1);
                prop_assert_eq!([*one; 3], *three);
            }
        }
    }
}
