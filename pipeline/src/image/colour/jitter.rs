//! Changes of brightness, contrast, saturation and hue, as torchvision computes them. Every change is rounded
//! to integers before the next change.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::grey::grey;

/// One change of a `u8` picture with 1 or 3 channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Adjustment {
    /// Multiplies the values by a factor.
    Brightness(f64),
    /// Multiplies the distances from the mean grey of the picture by a factor.
    Contrast(f64),
    /// Multiplies the distances from the pixel's own grey by a factor.
    Saturation(f64),
    /// Rotates the hue by a number of turns of the colour circle.
    Hue(f64),
}

impl Adjustment {
    /// Changes `pixels`. The number of bytes must be a multiple of `channels`.
    pub(crate) fn apply(&self, pixels: &mut [u8], channels: usize) {
        match *self {
            Adjustment::Brightness(factor) => blend(pixels, 0.0, factor),
            Adjustment::Contrast(factor) => {
                let mean = mean_grey(pixels, channels);
                blend(pixels, mean, factor);
            }
            // Grey pictures have no saturation and no hue.
            Adjustment::Saturation(_) | Adjustment::Hue(_) if channels != 3 => {}
            Adjustment::Saturation(factor) => saturate(pixels.as_chunks_mut::<3>().0, factor as f32),
            Adjustment::Hue(turns) => {
                for pixel in pixels.as_chunks_mut::<3>().0 {
                    *pixel = turned(*pixel, turns as f32);
                }
            }
        }
    }
}

/// Replaces every value by `from + (value - from) * factor`. All 256 possible results are computed first.
fn blend(pixels: &mut [u8], from: f64, factor: f64) {
    let mut results = [0u8; 256];
    for (value, result) in results.iter_mut().enumerate() {
        *result = rounded(from + (value as f64 - from) * factor);
    }
    for value in pixels {
        *value = results[usize::from(*value)];
    }
}

fn mean_grey(pixels: &[u8], channels: usize) -> f64 {
    let (sum, count): (u64, usize) = if channels == 3 {
        let colours = pixels.as_chunks::<3>().0;
        let greys = colours.iter().map(|[r, g, b]| u64::from(grey(*r, *g, *b)));
        (greys.sum(), colours.len())
    } else {
        (pixels.iter().map(|value| u64::from(*value)).sum(), pixels.len())
    };
    if count == 0 {
        0.0
    } else {
        sum as f64 / count as f64
    }
}

fn saturate(pixels: &mut [[u8; 3]], factor: f32) {
    for pixel in pixels {
        let grey = f32::from(grey(pixel[0], pixel[1], pixel[2]));
        for value in pixel {
            // The cast saturates values below 0 and above 255.
            *value = (grey + (f32::from(*value) - grey) * factor + 0.5) as u8;
        }
    }
}

/// Returns the colour whose hue is rotated by `turns` of the colour circle.
fn turned([r, g, b]: [u8; 3], turns: f32) -> [u8; 3] {
    let (r, g, b) = (f32::from(r), f32::from(g), f32::from(b));
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let range = most - least;
    if range == 0.0 {
        return [most as u8; 3];
    }
    // The hue in sixths of the colour circle, counted from red.
    let sixths = if most == r {
        (g - b) / range
    } else if most == g {
        2.0 + (b - r) / range
    } else {
        4.0 + (r - g) / range
    };
    let sixths = (sixths + turns * 6.0).rem_euclid(6.0);
    // The distance of the hue from red, green and blue decides the share of each channel. A channel reaches
    // up to two sixths on either side of its own hue.
    [0.0f32, 2.0, 4.0].map(|own| {
        let distance = (sixths - own + 3.0).rem_euclid(6.0) - 3.0;
        let share = (2.0 - distance.abs()).clamp(0.0, 1.0);
        (least + range * share + 0.5) as u8
    })
}

fn rounded(value: f64) -> u8 {
    // The cast saturates.
    value.round() as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: &[u8], expected: &[f64]) -> bool {
        let near =
            |(found, expected): (&u8, &f64)| (f64::from(*found) - expected.clamp(0.0, 255.0)).abs() <= 1.01;
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    /// Rotates the hue by the conversions to HSV and back of Python's `colorsys`.
    fn naive_turned([r, g, b]: [u8; 3], turns: f64) -> [f64; 3] {
        let [r, g, b] = [r, g, b].map(|value| f64::from(value) / 255.0);
        let (most, least) = (r.max(g).max(b), r.min(g).min(b));
        if most == least {
            return [most * 255.0; 3];
        }
        let (s, range) = ((most - least) / most, most - least);
        let (rc, gc, bc) = ((most - r) / range, (most - g) / range, (most - b) / range);
        let h = if r == most {
            bc - gc
        } else if g == most {
            2.0 + rc - bc
        } else {
            4.0 + gc - rc
        };
        let h = (h / 6.0 + turns).rem_euclid(1.0);
        let (i, f) = ((h * 6.0).floor(), (h * 6.0).fract());
        let (p, q, t) = (
            most * (1.0 - s),
            most * (1.0 - s * f),
            most * (1.0 - s * (1.0 - f)),
        );
        let colour = match i as i64 % 6 {
            0 => [most, t, p],
            1 => [q, most, p],
            2 => [p, most, t],
            3 => [p, q, most],
            4 => [t, p, most],
            _ => [most, p, q],
        };
        colour.map(|value| value * 255.0)
    }

    proptest! {
        #[test]
        fn adjustments_are_what_their_formulas_say(
            pixels in prop::collection::vec(any::<[u8; 3]>(), 1..40), factor in 0.0f64..3.0, turns in -0.5f64..0.5,
        ) {
            let bytes = pixels.as_flattened();
            let adjusted = |adjustment: Adjustment| {
                let mut found = bytes.to_vec();
                adjustment.apply(&mut found, 3);
                found
            };
            let greys: Vec<f64> = pixels.iter().map(|[r, g, b]| f64::from(grey(*r, *g, *b))).collect();
            let mean = greys.iter().sum::<f64>() / greys.len() as f64;
            let mixed = |from: &dyn Fn(usize) -> f64| -> Vec<f64> {
                let values = bytes.iter().enumerate();
                values.map(|(at, value)| from(at / 3) + (f64::from(*value) - from(at / 3)) * factor).collect()
            };
            prop_assert!(close(&adjusted(Adjustment::Brightness(factor)), &mixed(&|_| 0.0)));
            prop_assert!(close(&adjusted(Adjustment::Contrast(factor)), &mixed(&|_| mean)));
            prop_assert!(close(&adjusted(Adjustment::Saturation(factor)), &mixed(&|at| greys[at])));
            let turned: Vec<f64> = pixels.iter().flat_map(|pixel| naive_turned(*pixel, turns)).collect();
            prop_assert!(close(&adjusted(Adjustment::Hue(turns)), &turned));
        }

        #[test]
        fn neutral_factors_change_nothing(pixels in prop::collection::vec(any::<[u8; 3]>(), 1..40)) {
            let neutral = [
                Adjustment::Brightness(1.0),
                Adjustment::Contrast(1.0),
                Adjustment::Saturation(1.0),
                Adjustment::Hue(0.0),
            ];
            for adjustment in neutral {
                let mut found = pixels.clone();
                adjustment.apply(found.as_flattened_mut(), 3);
                prop_assert_eq!(&found, &pixels);
            }
        }
    }

    #[test]
    fn grey_has_neither_saturation_nor_hue() {
        let mut pixels = vec![3, 200];
        Adjustment::Saturation(0.0).apply(&mut pixels, 1);
        Adjustment::Hue(0.5).apply(&mut pixels, 1);
        assert_eq!(pixels, [3, 200]);
        Adjustment::Brightness(2.0).apply(&mut pixels, 1);
        assert_eq!(pixels, [6, 255]);
    }
}
