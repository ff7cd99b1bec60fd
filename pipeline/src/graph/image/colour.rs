//! Parameters of what changes the values of pixels, or where a channel lies.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// Parameters of `color_jitter`, as `torchvision.transforms.ColorJitter`: each factor is drawn uniformly, and
/// what they are factors of is changed in a random order. Of `u8[height, width, 3]`, or of one channel, which
/// has neither saturation nor hue.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Factors of the brightness, from and to; absent = unchanged.
    #[n(1)]
    pub brightness: Option<(f64, f64)>,
    /// Factors of the distance from the mean grey.
    #[n(2)]
    pub contrast: Option<(f64, f64)>,
    /// Factors of the distance from the pixel's own grey.
    #[n(3)]
    pub saturation: Option<(f64, f64)>,
    /// Turns of the hue, -0.5 to 0.5 of the circle.
    #[n(4)]
    pub hue: Option<(f64, f64)>,
    /// The seed; without one every task draws its own.
    #[n(5)]
    pub seed: Option<u64>,
}

/// Parameters of `normalize`: `(value * scale - mean) / std` as `f32`, of `u8` or `f32` with channels last.
/// With scale 1/255, what torchvision's `ToTensor` and `Normalize` compute.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Normalize {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The factor that values are multiplied by first.
    #[n(1)]
    #[serde(default = "scale_default")]
    pub scale: f32,
    /// Subtracted, one a channel or one for all.
    #[n(2)]
    pub mean: Vec<f32>,
    /// Divided by, one a channel or one for all.
    #[n(3)]
    pub std: Vec<f32>,
}

/// Parameters of `rgb_to_grayscale`: `0.299 R + 0.587 G + 0.114 B`, as `tf.image.rgb_to_grayscale` but
/// rounded to the nearest. Of `u8[height, width, 3]`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Grayscale {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Channels of the result: 1, or 3 equal ones.
    #[n(1)]
    pub channels: u8,
}

/// Parameters of `hwc_to_chw`: `[height, width, channels]` becomes `[channels, height, width]`, of any type.
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
    /// Factors of 1 ± so much, none below 0, and a hue of ± so much; 0 leaves what it is about unchanged.
    pub fn new(
        component: impl Into<String>,
        brightness: f64,
        contrast: f64,
        saturation: f64,
        hue: f64,
    ) -> ColorJitter {
        // A number that is no amount stands, to be refused with the graph.
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
