//! Normalisation of pixels to `f32` values with a given mean and standard deviation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Number of pixels whose factors are stored side by side for one step. The number is large enough to fill
/// vectors with any number of channels.
const PIXELS_PER_STEP: usize = 8;

/// A normaliser that computes `(value * scale - mean) / std` as `value * factor + offset`.
#[derive(Debug)]
pub(crate) struct Normaliser {
    /// The factor for each item of a step.
    factors: Vec<f32>,
    offsets: Vec<f32>,
}

impl Normaliser {
    /// Returns a normaliser for pixels of `channels` channels, at least 1. `mean` and `std` have one number
    /// each, or one number per channel.
    pub(crate) fn new(scale: f32, mean: &[f32], std: &[f32], channels: usize) -> Normaliser {
        let number = |numbers: &[f32], channel: usize| f64::from(numbers[channel % numbers.len()]);
        let items = (0..channels * PIXELS_PER_STEP).map(|item| item % channels);
        Normaliser {
            factors: items
                .clone()
                .map(|channel| (f64::from(scale) / number(std, channel)) as f32)
                .collect(),
            offsets: items
                .map(|channel| (-number(mean, channel) / number(std, channel)) as f32)
                .collect(),
        }
    }

    /// Normalises `u8` pixels to `f32`.
    pub(crate) fn bytes(&self, pixels: &[u8], destination: &mut [u8]) {
        let to = destination.as_chunks_mut::<4>().0;
        let steps = to.chunks_mut(self.factors.len());
        for (to, from) in steps.zip(pixels.chunks(self.factors.len())) {
            let numbers = self.factors.iter().zip(&self.offsets);
            for ((to, from), (factor, offset)) in to.iter_mut().zip(from).zip(numbers) {
                *to = (f32::from(*from) * factor + offset).to_le_bytes();
            }
        }
    }

    /// Normalises `f32` pixels.
    pub(crate) fn floats(&self, pixels: &[u8], destination: &mut [u8]) {
        let (from, to) = (pixels.as_chunks::<4>().0, destination.as_chunks_mut::<4>().0);
        let steps = to.chunks_mut(self.factors.len());
        for (to, from) in steps.zip(from.chunks(self.factors.len())) {
            let numbers = self.factors.iter().zip(&self.offsets);
            for ((to, from), (factor, offset)) in to.iter_mut().zip(from).zip(numbers) {
                *to = (f32::from_le_bytes(*from) * factor + offset).to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_scaled_by_channel(
            pixels in prop::collection::vec(any::<u8>(), 1..100),
            channels in 1usize..5,
            mean in prop::collection::vec(-1.0f32..1.0, 4),
            std in prop::collection::vec(0.1f32..2.0, 4),
            one_mean: bool,
        ) {
            let pixels = &pixels[..pixels.len() / channels * channels];
            let mean = if one_mean { &mean[..1] } else { &mean[..channels] };
            let std = &std[..channels];
            let normaliser = Normaliser::new(1.0 / 255.0, mean, std, channels);
            let mut found = vec![0; pixels.len() * 4];
            normaliser.bytes(pixels, &mut found);
            let floats: Vec<u8> = pixels.iter().flat_map(|value| f32::from(*value).to_le_bytes()).collect();
            let mut of_floats = vec![0; floats.len()];
            normaliser.floats(&floats, &mut of_floats);
            prop_assert_eq!(&found, &of_floats);
            for (at, found) in found.as_chunks::<4>().0.iter().enumerate() {
                let mean = f64::from(mean[at % channels % mean.len()]);
                let expected = (f64::from(pixels[at]) / 255.0 - mean) / f64::from(std[at % channels]);
                let found = f64::from(f32::from_le_bytes(*found));
                prop_assert!((found - expected).abs() < 1e-5, "{} for {}", found, expected);
            }
        }
    }
}
