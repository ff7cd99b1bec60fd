//! Parameters of the functions that change the values of pixels, or the order of dimensions.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// Parameters of `color_jitter`, which works as `torchvision.transforms.ColorJitter`.
///
/// Each factor is drawn uniformly, and the changes are applied in a random order. The picture is
/// `u8[height, width, 3]`, or has one channel, on which saturation and hue have no effect.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The range of factors for the brightness; `None` leaves the brightness unchanged.
    #[n(1)]
    pub brightness: Option<(f64, f64)>,
    /// The range of factors for each pixel's distance from the mean grey of the picture; `None` leaves the
    /// contrast unchanged.
    #[n(2)]
    pub contrast: Option<(f64, f64)>,
    /// The range of factors for each pixel's distance from its own grey; `None` leaves the saturation
    /// unchanged.
    #[n(3)]
    pub saturation: Option<(f64, f64)>,
    /// The range of rotations of the hue, within -0.5 to 0.5 of the colour circle; `None` leaves the hue
    /// unchanged.
    #[n(4)]
    pub hue: Option<(f64, f64)>,
    /// The seed; with `None` every task draws its own seed.
    #[n(5)]
    pub seed: Option<u64>,
}

/// Parameters of `normalize`, which computes `(value * scale - mean) / std` as `f32`. The picture is `u8` or
/// `f32`, with the channels last. With the scale 1/255 the result equals that of torchvision's `ToTensor` and
/// `Normalize`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Normalize {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The factor by which values are multiplied first.
    #[n(1)]
    #[serde(default = "scale_default")]
    pub scale: f32,
    /// The numbers to subtract, one for each channel or one for all.
    #[n(2)]
    pub mean: Vec<f32>,
    /// The numbers to divide by, one for each channel or one for all.
    #[n(3)]
    pub std: Vec<f32>,
}

/// Parameters of `rgb_to_grayscale`, which computes `0.299 R + 0.587 G + 0.114 B`. Works as
/// `tf.image.rgb_to_grayscale`, but rounds to the nearest value. The picture is `u8[height, width, 3]`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Grayscale {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of channels of the result: 1, or 3 equal channels.
    #[n(1)]
    pub channels: u8,
}

/// Parameters of `hwc_to_chw`, which turns `[height, width, channels]` of any dtype into
/// `[channels, height, width]`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct HwcToChw {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
}

impl Normalize {
    /// The factor that brings the values of pixels into 0 to 1.
    pub(crate) const UNIT_SCALE: f32 = 1.0 / 255.0;
}

fn scale_default() -> f32 {
    Normalize::UNIT_SCALE
}

impl ColorJitter {
    /// Makes ranges of factors around 1: `1 ± amount`, but not below 0. The hue has the range `± hue`. An
    /// amount of 0 leaves its property unchanged.
    pub fn new(
        component: impl Into<String>,
        brightness: f64,
        contrast: f64,
        saturation: f64,
        hue: f64,
    ) -> ColorJitter {
        // NaN and negative amounts are kept, so that the check of the graph refuses them.
        let around = |amount: f64| (amount != 0.0).then(|| ((1.0 - amount).max(0.0), 1.0 + amount));
        ColorJitter {
            component: component.into(),
            brightness: around(brightness),
            contrast: around(contrast),
            saturation: around(saturation),
            hue: (hue != 0.0).then_some((-hue, hue)),
            seed: None,
        }
    }
}
