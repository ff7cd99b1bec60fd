//! The order of the channels in memory.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Separates the channels of `pixels` into planes, one after the other. Each pixel has `channels` channels of
/// `item_bytes` bytes.
pub(crate) fn planes(pixels: &[u8], channels: usize, item_bytes: usize, destination: &mut [u8]) {
    match (channels, item_bytes) {
        (3, 1) => split::<1, 3>(pixels, destination),
        (3, 4) => split::<4, 3>(pixels, destination),
        (4, 1) => split::<1, 4>(pixels, destination),
        (4, 4) => split::<4, 4>(pixels, destination),
        (1, _) => destination.copy_from_slice(pixels),
        (_, _) => split_any(pixels, channels, item_bytes, destination),
    }
}

/// Separates the channels of pixels whose sizes are known at compile time, so that the compiler can vectorise
/// the loops.
fn split<const BYTES: usize, const CHANNELS: usize>(pixels: &[u8], destination: &mut [u8]) {
    let items = pixels.as_chunks::<BYTES>().0.as_chunks::<CHANNELS>().0;
    let planes = destination.as_chunks_mut::<BYTES>().0;
    if items.is_empty() {
        return;
    }
    for (channel, plane) in planes.chunks_exact_mut(items.len()).enumerate() {
        for (to, from) in plane.iter_mut().zip(items) {
            *to = from[channel];
        }
    }
}

fn split_any(pixels: &[u8], channels: usize, item_bytes: usize, destination: &mut [u8]) {
    let pixel_bytes = channels * item_bytes;
    if pixel_bytes == 0 || pixels.is_empty() {
        return;
    }
    let plane_bytes = pixels.len() / channels;
    for (channel, plane) in destination.chunks_exact_mut(plane_bytes).enumerate() {
        let begin = channel * item_bytes;
        for (to, from) in plane
            .chunks_exact_mut(item_bytes)
            .zip(pixels.chunks_exact(pixel_bytes))
        {
            to.copy_from_slice(&from[begin..begin + item_bytes]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_land_in_their_channels_plane(
            count in 1usize..40, channels in 1usize..6, item_bytes in prop::sample::select(vec![1usize, 2, 4, 8]),
        ) {
            let pixels: Vec<u8> = (0..count * channels * item_bytes).map(|byte| (byte % 251) as u8).collect();
            let mut found = vec![0; pixels.len()];
            planes(&pixels, channels, item_bytes, &mut found);
            for pixel in 0..count {
                for channel in 0..channels {
                    let from = (pixel * channels + channel) * item_bytes;
                    let to = (channel * count + pixel) * item_bytes;
                    prop_assert_eq!(&found[to..to + item_bytes], &pixels[from..from + item_bytes]);
                }
            }
        }
    }
}
