//! The rules that the parameters of picture functions obey by themselves.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{ColorJitter, Flip, ImageFunction, Normalize, RandomResizedCrop};

/// Pixels along a side of a result.
const SIDE_MAX: u32 = 1 << 16;
/// Channels that `normalize` may have numbers for.
const CHANNELS_MAX: usize = 1 << 12;
/// The largest factor of `color_jitter`: beyond it every picture is black and white.
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
                        "begins at row {}, column {}, beyond the {SIDE_MAX} pixels a side may have",
                        crop.top, crop.left
                    ));
                }
                Ok(())
            }
            ImageFunction::CentralCrop(crop) if crop.fraction > 0.0 && crop.fraction <= 1.0 => Ok(()),
            ImageFunction::CentralCrop(crop) => Err(format!(
                "keeps {} of each side, which is not above 0 and at most 1",
                crop.fraction
            )),
            ImageFunction::CenterCrop(crop) => check_size(crop.height, crop.width),
            ImageFunction::RandomCrop(crop) => check_size(crop.height, crop.width),
            ImageFunction::RandomResizedCrop(crop) => check_random_resized_crop(crop),
            ImageFunction::Flip(flip) => check_flip(flip),
            ImageFunction::ColorJitter(jitter) => check_jitter(jitter),
            ImageFunction::Normalize(normalize) => check_normalize(normalize),
            ImageFunction::Grayscale(grayscale) if matches!(grayscale.channels, 1 | 3) => Ok(()),
            ImageFunction::Grayscale(grayscale) => {
                Err(format!("makes {} channels of grey: 1 or 3", grayscale.channels))
            }
            ImageFunction::HwcToChw(_) => Ok(()),
        }
    }
}

fn check_size(height: u32, width: u32) -> Result<(), String> {
    if height == 0 || width == 0 || height > SIDE_MAX || width > SIDE_MAX {
        return Err(format!(
            "size {height} x {width} is not within 1..={SIDE_MAX} pixels a side"
        ));
    }
    Ok(())
}

fn check_random_resized_crop(crop: &RandomResizedCrop) -> Result<(), String> {
    check_size(crop.height, crop.width)?;
    let scale = crop.scale_min > 0.0 && crop.scale_min <= crop.scale_max && crop.scale_max <= 1.0;
    if !scale {
        return Err(format!(
            "scale {}..{} is not within 0..1",
            crop.scale_min, crop.scale_max
        ));
    }
    let ratio = crop.ratio_min > 0.0 && crop.ratio_min <= crop.ratio_max && crop.ratio_max.is_finite();
    if !ratio {
        return Err(format!(
            "ratio {}..{} is not a positive range",
            crop.ratio_min, crop.ratio_max
        ));
    }
    Ok(())
}

fn check_flip(flip: &Flip) -> Result<(), String> {
    match flip.probability {
        Some(probability) if !(0.0..=1.0).contains(&probability) => Err(format!(
            "has the probability {probability}, which is not within 0..=1"
        )),
        Some(_) | None => Ok(()),
    }
}

fn check_jitter(jitter: &ColorJitter) -> Result<(), String> {
    let range = |what: &str, range: Option<(f64, f64)>, least: f64, most: f64| match range {
        Some((from, to)) if !(from >= least && from <= to && to <= most) => Err(format!(
            "has the {what} {from}..{to}, which is not a range within {least}..={most}"
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
                "has {} numbers as {what}: one for all channels or one for each, at most {CHANNELS_MAX}",
                numbers.len()
            ));
        }
        if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(format!("has the {what} {number}"));
        }
    }
    if mean.len() != std.len() && mean.len() != 1 && std.len() != 1 {
        return Err(format!("has {} means and {} deviations", mean.len(), std.len()));
    }
    if std.contains(&0.0) {
        return Err("divides by a deviation of 0".to_owned());
    }
    if !normalize.scale.is_finite() {
        return Err(format!("has the scale {}", normalize.scale));
    }
    Ok(())
}
