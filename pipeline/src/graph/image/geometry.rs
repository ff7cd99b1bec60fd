//! Parameters of what cuts, resizes and mirrors pictures. Sizes are in pixels, rows before columns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The method that makes pixels of others, as in `tf.image.ResizeMethod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ResizeMethod {
    /// The nearest pixel.
    #[n(0)]
    Nearest,
    /// The two nearest pixels along each side, by their distance.
    #[default]
    #[n(1)]
    Bilinear,
    /// Four along each side, by the cubic of Catmull and Rom.
    #[n(2)]
    Bicubic,
    /// The mean of the pixels whose centres lie in the area that becomes one pixel.
    #[n(3)]
    Area,
    /// Six along each side, by the windowed sinc of Lanczos.
    #[n(4)]
    Lanczos3,
}

/// Parameters of `resize`: of `u8` or `f32` with 1 to 4 channels, to the same type.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Rows of the result, in pixels.
    #[n(1)]
    pub height: u32,
    /// Columns of the result, in pixels.
    #[n(2)]
    pub width: u32,
    /// The method; absent = [`ResizeMethod::Bilinear`].
    #[n(3)]
    pub method: Option<ResizeMethod>,
    /// Whether the filter widens when a picture shrinks, so that every pixel has its part in the result;
    /// absent = it does. [`ResizeMethod::Nearest`] and [`ResizeMethod::Area`] are the same either way.
    #[n(4)]
    pub antialias: Option<bool>,
}

/// Parameters of `crop`: an area that must lie within every picture.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Crop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Rows above it.
    #[n(1)]
    pub top: u32,
    /// Columns to its left.
    #[n(2)]
    pub left: u32,
    /// The rows.
    #[n(3)]
    pub height: u32,
    /// The columns.
    #[n(4)]
    pub width: u32,
}

/// Parameters of `central_crop`, as `tf.image.central_crop`: `(size - size * fraction) / 2`, rounded down, is
/// cut off at either end of a side.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct CentralCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The share of each side that is kept, above 0 and at most 1.
    #[n(1)]
    pub fraction: f64,
}

/// Parameters of `center_crop`, as `torchvision.transforms.CenterCrop` of pictures that are large enough.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct CenterCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The rows.
    #[n(1)]
    pub height: u32,
    /// The columns.
    #[n(2)]
    pub width: u32,
}

/// Parameters of `random_crop`: the place is drawn uniformly from those within the picture.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct RandomCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The rows.
    #[n(1)]
    pub height: u32,
    /// The columns.
    #[n(2)]
    pub width: u32,
    /// The seed; without one every task draws its own.
    #[n(3)]
    pub seed: Option<u64>,
}

/// Parameters of `random_resized_crop`: the area is drawn uniformly from `scale`, the aspect ratio
/// log-uniformly from `ratio`; after ten draws that do not fit, the largest central crop within the ratios is
/// taken.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Rows of the result, in pixels.
    #[n(1)]
    pub height: u32,
    /// Columns of the result, in pixels.
    #[n(2)]
    pub width: u32,
    /// The smallest share of the image's area.
    #[n(3)]
    #[serde(default = "scale_min_default")]
    pub scale_min: f64,
    /// The largest share of the image's area.
    #[n(4)]
    #[serde(default = "scale_max_default")]
    pub scale_max: f64,
    /// The smallest width / height.
    #[n(5)]
    #[serde(default = "ratio_min_default")]
    pub ratio_min: f64,
    /// The largest width / height.
    #[n(6)]
    #[serde(default = "ratio_max_default")]
    pub ratio_max: f64,
    /// The seed; without one every task draws its own.
    #[n(7)]
    pub seed: Option<u64>,
    /// The method; absent = [`ResizeMethod::Bilinear`].
    #[n(8)]
    pub method: Option<ResizeMethod>,
    /// Whether to filter when shrinking: see [`Resize::antialias`].
    #[n(9)]
    pub antialias: Option<bool>,
}

/// The axis of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum FlipAxis {
    /// Columns.
    #[n(0)]
    LeftRight,
    /// Rows.
    #[n(1)]
    UpDown,
}

/// Parameters of `flip`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The axis.
    #[n(1)]
    pub axis: FlipAxis,
    /// The probability; absent = certain.
    #[n(2)]
    pub probability: Option<f64>,
    /// The seed; without one every task draws its own.
    #[n(3)]
    pub seed: Option<u64>,
}

fn scale_min_default() -> f64 {
    0.08
}

fn scale_max_default() -> f64 {
    1.0
}

fn ratio_min_default() -> f64 {
    3.0 / 4.0
}

fn ratio_max_default() -> f64 {
    4.0 / 3.0
}

impl Resize {
    /// Bilinear, to `height` x `width`.
    pub fn new(component: impl Into<String>, height: u32, width: u32) -> Resize {
        Resize {
            component: component.into(),
            height,
            width,
            method: None,
            antialias: None,
        }
    }
}

impl RandomResizedCrop {
    /// Crops 8 % to 100 % of a picture, with an aspect ratio of 3:4 to 4:3, to `height` x `width`.
    pub fn new(component: impl Into<String>, height: u32, width: u32) -> RandomResizedCrop {
        RandomResizedCrop {
            component: component.into(),
            height,
            width,
            scale_min: scale_min_default(),
            scale_max: scale_max_default(),
            ratio_min: ratio_min_default(),
            ratio_max: ratio_max_default(),
            seed: None,
            method: None,
            antialias: None,
        }
    }
}
