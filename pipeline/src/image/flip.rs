//! Mirroring of pictures.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Reverses the order of columns. `pixels` has rows of `row_bytes` bytes, with `pixel_bytes` bytes for each
/// pixel.
pub(crate) fn left_right(pixels: &mut [u8], row_bytes: usize, pixel_bytes: usize) {
    if row_bytes == 0 {
        return;
    }
    for row in pixels.chunks_exact_mut(row_bytes) {
        match pixel_bytes {
            1 => row.reverse(),
            3 => row.as_chunks_mut::<3>().0.reverse(),
            4 => row.as_chunks_mut::<4>().0.reverse(),
            12 => row.as_chunks_mut::<12>().0.reverse(),
            _ => swap_pixels(row, pixel_bytes),
        }
    }
}

/// Reverses the order of rows of `row_bytes` bytes.
pub(crate) fn up_down(pixels: &mut [u8], row_bytes: usize) {
    swap_pixels(pixels, row_bytes);
}

/// Reverses the order of items of `size` bytes.
fn swap_pixels(mut bytes: &mut [u8], size: usize) {
    while size > 0 && bytes.len() >= 2 * size {
        let (first, rest) = bytes.split_at_mut(size);
        let (middle, last) = rest.split_at_mut(rest.len() - size);
        first.swap_with_slice(last);
        bytes = middle;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_pixel_lands_opposite_to_where_it_was(
            height in 1usize..6, width in 1usize..9, size in prop::sample::select(vec![1usize, 2, 3, 4, 6, 12]),
        ) {
            let at = |y: usize, x: usize, byte: usize| ((y * width + x) * size + byte) as u8;
            let pixels: Vec<u8> = (0..height * width * size).map(|byte| byte as u8).collect();
            let mut columns = pixels.clone();
            left_right(&mut columns, width * size, size);
            let mut rows = pixels;
            up_down(&mut rows, width * size);
            for y in 0..height {
                for x in 0..width {
                    for byte in 0..size {
                        let place = (y * width + x) * size + byte;
                        prop_assert_eq!(columns[place], at(y, width - 1 - x, byte));
                        prop_assert_eq!(rows[place], at(height - 1 - y, x, byte));
                    }
                }
            }
        }
    }
}
