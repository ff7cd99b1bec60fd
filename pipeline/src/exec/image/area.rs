//! The part of an image that a function takes: a fixed, a centred, or a random part. A random part depends on
//! the seed, the epoch, the pass and the element's position.

use rand::Rng;

use crate::graph::{Crop, RandomResizedCrop, kept};
use crate::image::Area;

/// Number of draws before a random area falls back to the centre of the image.
const ATTEMPTS: usize = 10;

/// A rule that selects a part of an image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rule {
    /// The whole image.
    Whole,
    Fixed(Area),
    /// A share of both sides, around the centre of the image.
    Central(f64),
    /// A number of rows and columns around the centre.
    Center(u32, u32),
    /// A number of rows and columns at a random place.
    Random(u32, u32),
    /// A part whose area and aspect ratio are drawn.
    RandomResized(RandomResizedCrop),
}

impl Rule {
    pub(crate) fn fixed(crop: &Crop) -> Rule {
        Rule::Fixed(Area {
            top: crop.top,
            left: crop.left,
            height: crop.height,
            width: crop.width,
        })
    }

    /// Returns the selected part of a picture of `height` x `width` pixels. Neither side may be 0.
    ///
    /// # Errors
    /// A text that states the reason, if the picture is too small.
    pub(crate) fn area(
        &self,
        height: u32,
        width: u32,
        generator: impl FnOnce() -> rand_pcg::Pcg64Mcg,
    ) -> Result<Area, String> {
        let area = match self {
            Rule::Whole => Area::whole(height, width),
            Rule::Fixed(area) => *area,
            Rule::Central(fraction) => {
                // The conversion keeps the value, because a part of a side is not longer than the side.
                let kept = |side: u32| kept(side.into(), *fraction) as u32;
                Area::centred(kept(height), kept(width), height, width)
            }
            Rule::Center(rows, columns) => Area::centred(*rows, *columns, height, width),
            Rule::Random(rows, columns) => {
                let mut generator = generator();
                Area {
                    top: generator.random_range(0..=height.saturating_sub(*rows)),
                    left: generator.random_range(0..=width.saturating_sub(*columns)),
                    height: *rows,
                    width: *columns,
                }
            }
            Rule::RandomResized(crop) => draw_area(crop, height, width, &mut generator()),
        };
        if area.fits(height, width) {
            return Ok(area);
        }
        let end = |from: u32, length: u32| u64::from(from) + u64::from(length);
        Err(format!(
            "the image of {width} x {height} pixels is too small for a crop that ends with column {}, row {}",
            end(area.left, area.width),
            end(area.top, area.height)
        ))
    }
}

/// Draws an area of a picture of `height` x `width` pixels. Neither side may be 0.
fn draw_area(crop: &RandomResizedCrop, height: u32, width: u32, generator: &mut impl Rng) -> Area {
    let pixels = f64::from(height) * f64::from(width);
    let (log_min, log_max) = (crop.ratio_min.ln(), crop.ratio_max.ln());
    for _ in 0..ATTEMPTS {
        let area = pixels * generator.random_range(crop.scale_min..=crop.scale_max);
        let ratio = generator.random_range(log_min..=log_max).exp();
        // Casts saturate, so that any ratio yields a size that either fits or is rejected.
        let (w, h) = (
            (area * ratio).sqrt().round() as u32,
            (area / ratio).sqrt().round() as u32,
        );
        if (1..=width).contains(&w) && (1..=height).contains(&h) {
            let top = generator.random_range(0..=height - h);
            let left = generator.random_range(0..=width - w);
            return Area {
                top,
                left,
                height: h,
                width: w,
            };
        }
    }
    central_area(crop, height, width)
}

/// Returns the largest central area with a permitted aspect ratio.
fn central_area(crop: &RandomResizedCrop, height: u32, width: u32) -> Area {
    let ratio = f64::from(width) / f64::from(height);
    let (h, w) = if ratio < crop.ratio_min {
        ((f64::from(width) / crop.ratio_min).round() as u32, width)
    } else if ratio > crop.ratio_max {
        (height, (f64::from(height) * crop.ratio_max).round() as u32)
    } else {
        (height, width)
    };
    Area::centred(h.clamp(1, height), w.clamp(1, width), height, width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn crop(scale_min: f64, ratio_min: f64, ratio_max: f64) -> RandomResizedCrop {
        RandomResizedCrop {
            scale_min,
            ratio_min,
            ratio_max,
            ..RandomResizedCrop::new("", 4, 4)
        }
    }

    proptest! {
        #[test]
        fn drawn_areas_lie_within_the_picture(
            height in 1u32..3000, width in 1u32..3000, seed: u64,
            scale_min in 0.01f64..1.0, ratio_min in 0.1f64..1.0, spread in 1.0f64..10.0,
        ) {
            let crop = crop(scale_min, ratio_min, ratio_min * spread);
            let area = draw_area(&crop, height, width, &mut Pcg64Mcg::seed_from_u64(seed));
            prop_assert!(area.fits(height, width));
        }

        #[test]
        fn an_area_has_its_size_or_fails(
            height in 1u32..40, width in 1u32..40, rows in 1u32..40, columns in 1u32..40, seed: u64,
        ) {
            let generator = || Pcg64Mcg::seed_from_u64(seed);
            for rule in [Rule::Center(rows, columns), Rule::Random(rows, columns)] {
                match rule.area(height, width, generator) {
                    Ok(area) => {
                        prop_assert!(area.fits(height, width));
                        prop_assert_eq!((area.height, area.width), (rows, columns));
                    }
                    Err(reason) => {
                        prop_assert!(rows > height || columns > width, "{}", reason);
                        prop_assert!(reason.contains("too small"));
                    }
                }
            }
        }

        #[test]
        fn a_central_share_is_tensorflows(side in 1u32..3000, fraction in 0.001f64..=1.0) {
            // The start is computed as TensorFlow's documentation states.
            let start = ((f64::from(side) - f64::from(side) * fraction) / 2.0) as u32;
            let area = Rule::Central(fraction).area(side, 7, || Pcg64Mcg::seed_from_u64(0)).unwrap();
            prop_assert_eq!((area.top, area.height), (start, side - 2 * start));
        }
    }

    #[test]
    fn an_unfit_strip_is_cropped_centrally() {
        let area = draw_area(
            &crop(0.9, 0.75, 4.0 / 3.0),
            10,
            1000,
            &mut Pcg64Mcg::seed_from_u64(1),
        );
        assert_eq!(
            area,
            Area {
                top: 0,
                left: 493,
                height: 10,
                width: 13
            }
        );
    }
}
