//! The checks of picture functions' parameters, which need no knowledge of the input.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{ColorJitter, Flip, ImageFunction, Normalize, RandomResizedCrop};

/// The maximum number of pixels along one side of a result.
const SIDE_MAX: u32 = 1 << 16;
/// The maximum number of channels for which `normalize` may have numbers.
const CHANNELS_MAX: usize = 1 << 12;
/// The largest factor of `color_jitter`. Larger factors would make every picture black and white.
const FACTOR_MAX: f64 = 1e6;

impl ImageFunction {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            ImageFunction::Decode(decode) => decode.check(),
            ImageFunction::Resize(resize) => check_size(resize.height, resize.width),
            ImageFunction::Crop(crop) => {
                check_size(crop.height, crop.width)?;
                if crop.top > SIDE_MAX || crop.left > SIDE_MAX {
                    return Err(format!(
                        "begins at row {}, column {}, beyond the limit of {SIDE_MAX} pixels a side",
                        crop.top, crop.left
                    ));
                }
                Ok(())
            }
            ImageFunction::CentralCrop(crop) if crop.fraction > 0.0 && crop.fraction <= 1.0 => Ok(()),
            ImageFunction::CentralCrop(crop) => Err(format!(
                "keeps a fraction of {} of each side, expected a number above 0 and at most 1",
                crop.fraction
            )),
            ImageFunction::CenterCrop(crop) => check_size(crop.height, crop.width),
            ImageFunction::RandomCrop(crop) => check_size(crop.height, crop.width),
            ImageFunction::RandomResizedCrop(crop) => check_random_resized_crop(crop),
            ImageFunction::Flip(flip) => check_flip(flip),
            ImageFunction::ColorJitter(jitter) => check_jitter(jitter),
            ImageFunction::Normalize(normalize) => check_normalize(normalize),
            ImageFunction::Grayscale(grayscale) if matches!(grayscale.channels, 1 | 3) => Ok(()),
            ImageFunction::Grayscale(grayscale) => Err(format!(
                "makes {} channels of grey, expected 1 or 3",
                grayscale.channels
            )),
            ImageFunction::HwcToChw(_) => Ok(()),
        }
    }
}

fn check_size(height: u32, width: u32) -> Result<(), String> {
    if height == 0 || width == 0 || height > SIDE_MAX || width > SIDE_MAX {
        return Err(format!(
            "has the size {height} x {width}, expected 1 to {SIDE_MAX} pixels a side"
        ));
    }
    Ok(())
}

fn check_random_resized_crop(crop: &RandomResizedCrop) -> Result<(), String> {
    check_size(crop.height, crop.width)?;
    let scale = crop.scale_min > 0.0 && crop.scale_min <= crop.scale_max && crop.scale_max <= 1.0;
    if !scale {
        return Err(format!(
            "has the scale {}..{}, expected a range above 0 and at most 1",
            crop.scale_min, crop.scale_max
        ));
    }
    let ratio = crop.ratio_min > 0.0 && crop.ratio_min <= crop.ratio_max && crop.ratio_max.is_finite();
    if !ratio {
        return Err(format!(
            "has the ratio {}..{}, expected a range of positive numbers",
            crop.ratio_min, crop.ratio_max
        ));
    }
    Ok(())
}

fn check_flip(flip: &Flip) -> Result<(), String> {
    match flip.probability {
        Some(probability) if !(0.0..=1.0).contains(&probability) => {
            Err(format!("has the probability {probability}, expected 0 to 1"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_jitter(jitter: &ColorJitter) -> Result<(), String> {
    let range = |what: &str, range: Option<(f64, f64)>, least: f64, most: f64| match range {
        Some((from, to)) if !(from >= least && from <= to && to <= most) => Err(format!(
            "has the {what} {from}..{to}, expected a range within {least} to {most}"
        )),
        Some(_) | None => Ok(()),
    };
    range("brightness", jitter.brightness, 0.0, FACTOR_MAX)?;
    range("contrast", jitter.contrast, 0.0, FACTOR_MAX)?;
    range("saturation", jitter.saturation, 0.0, FACTOR_MAX)?;
    range("hue", jitter.hue, -0.5, 0.5)
}

fn check_normalize(normalize: &Normalize) -> Result<(), String> {
    let (mean, std) = (&normalize.mean, &normalize.std);
    for (what, numbers) in [("mean", mean), ("std", std)] {
        if numbers.is_empty() || numbers.len() > CHANNELS_MAX {
            return Err(format!(
                "has {} numbers as {what}, expected one for all channels or one for each, at most {CHANNELS_MAX}",
                numbers.len()
            ));
        }
        if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(format!("has the {what} {number}, expected a finite number"));
        }
    }
    if mean.len() != std.len() && mean.len() != 1 && std.len() != 1 {
        return Err(format!(
            "has {} means and {} deviations, expected as many means as deviations",
            mean.len(),
            std.len()
        ));
    }
    if std.contains(&0.0) {
        return Err("divides by a deviation of 0".to_owned());
    }
    if !normalize.scale.is_finite() {
        return Err(format!(
            "has the scale {}, expected a finite number",
            normalize.scale
        ));
    }
    Ok(())
}
