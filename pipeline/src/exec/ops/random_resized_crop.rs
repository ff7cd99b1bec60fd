//! `random_resized_crop`: a random area of a picture, at a fixed size. What is drawn is a function of seed,
//! epoch, pass and the element's position.

use rand::Rng;

use crate::exec::call::{Call, Place};
use crate::exec::error::ExecError;
use crate::exec::random::Seeds;
use crate::exec::value::Value;
use crate::graph::RandomResizedCrop;

use super::resize::{Area, Picture};

/// Draws before the crop falls back to the centre.
const ATTEMPTS: usize = 10;

pub(crate) struct RandomResizedCropCall {
    /// The component's place in the element.
    pub(crate) component: usize,
    pub(crate) crop: RandomResizedCrop,
    pub(crate) seeds: Seeds,
}

impl Call for RandomResizedCropCall {
    fn name(&self) -> &str {
        "random_resized_crop"
    }

    fn call(&self, mut value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let image = Picture::of(self.name(), &value, self.component)?;
        let mut generator = self.seeds.draws(at.pass).generator(at.position);
        let area = draw_area(&self.crop, image.height, image.width, &mut generator);
        let (height, width) = (self.crop.height, self.crop.width);
        value[self.component] =
            image.resized("random_resized_crop", area, height, width, at.origin.cloned())?;
        Ok(Some(value))
    }
}

/// Draws an area of a picture of `height` x `width` pixels, neither of which is 0.
fn draw_area(crop: &RandomResizedCrop, height: u32, width: u32, generator: &mut impl Rng) -> Area {
    let pixels = f64::from(height) * f64::from(width);
    let (log_min, log_max) = (crop.ratio_min.ln(), crop.ratio_max.ln());
    for _ in 0..ATTEMPTS {
        let area = pixels * generator.random_range(crop.scale_min..=crop.scale_max);
        let ratio = generator.random_range(log_min..=log_max).exp();
        // Casts saturate, so that any ratio gives a size that is refused or fits.
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

/// The largest central area whose aspect ratio is allowed.
fn central_area(crop: &RandomResizedCrop, height: u32, width: u32) -> Area {
    let ratio = f64::from(width) / f64::from(height);
    let (h, w) = if ratio < crop.ratio_min {
        ((f64::from(width) / crop.ratio_min).round() as u32, width)
    } else if ratio > crop.ratio_max {
        (height, (f64::from(height) * crop.ratio_max).round() as u32)
    } else {
        (height, width)
    };
    let (h, w) = (h.clamp(1, height), w.clamp(1, width));
    Area {
        top: (height - h) / 2,
        left: (width - w) / 2,
        height: h,
        width: w,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn crop(scale_min: f64, ratio_min: f64, ratio_max: f64) -> RandomResizedCrop {
        RandomResizedCrop {
            component: String::new(),
            height: 4,
            width: 4,
            scale_min,
            scale_max: 1.0,
            ratio_min,
            ratio_max,
            seed: None,
        }
    }

    proptest! {
        #[test]
        fn areas_lie_within_the_picture(
            height in 1u32..3000, width in 1u32..3000, seed: u64,
            scale_min in 0.01f64..1.0, ratio_min in 0.1f64..1.0, spread in 1.0f64..10.0,
        ) {
            let crop = crop(scale_min, ratio_min, ratio_min * spread);
            let area = draw_area(&crop, height, width, &mut Pcg64Mcg::seed_from_u64(seed));
            prop_assert!(area.height >= 1 && area.top + area.height <= height);
            prop_assert!(area.width >= 1 && area.left + area.width <= width);
        }
    }

    #[test]
    fn a_strip_that_fits_no_ratio_is_cropped_at_its_centre() {
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
