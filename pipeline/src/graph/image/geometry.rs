//! Parameters of the functions that crop, resize and mirror pictures. Sizes are in pixels, rows before
//! columns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The method by which a resized pixel is computed from source pixels, as in `tf.image.ResizeMethod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ResizeMethod {
    /// The value of the nearest pixel.
    #[n(0)]
    Nearest,
    /// The mean of the two nearest pixels along each side, weighted by distance.
    #[default]
    #[n(1)]
    Bilinear,
    /// The cubic interpolation of Catmull and Rom over four pixels along each side.
    #[n(2)]
    Bicubic,
    /// The mean of the pixels whose centres are in the area that becomes one pixel.
    #[n(3)]
    Area,
    /// The windowed sinc of Lanczos over six pixels along each side.
    #[n(4)]
    Lanczos3,
}

/// Parameters of `resize`, which takes `u8` or `f32` with 1 to 4 channels and keeps the dtype.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of rows of the result.
    #[n(1)]
    pub height: u32,
    /// The number of columns of the result.
    #[n(2)]
    pub width: u32,
    /// The method; `None` means [`ResizeMethod::Bilinear`].
    #[n(3)]
    pub method: Option<ResizeMethod>,
    /// The switch for antialiasing: the filter widens when a picture shrinks, so that every source pixel
    /// contributes. `None` means `true`. The option has no effect on [`ResizeMethod::Nearest`] and
    /// [`ResizeMethod::Area`].
    #[n(4)]
    pub antialias: Option<bool>,
}

/// Parameters of `crop`, whose area must be inside every picture.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Crop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of rows above the area.
    #[n(1)]
    pub top: u32,
    /// The number of columns to the left of the area.
    #[n(2)]
    pub left: u32,
    /// The number of rows of the area.
    #[n(3)]
    pub height: u32,
    /// The number of columns of the area.
    #[n(4)]
    pub width: u32,
}

/// Parameters of `central_crop`, which works as `tf.image.central_crop`. At each end of a side,
/// `(size - size * fraction) / 2` pixels are cut off, rounded down.
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

/// Parameters of `center_crop`, which works as `torchvision.transforms.CenterCrop` for pictures that are
/// large enough.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct CenterCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of rows of the result.
    #[n(1)]
    pub height: u32,
    /// The number of columns of the result.
    #[n(2)]
    pub width: u32,
}

/// Parameters of `random_crop`, whose area is drawn uniformly from all areas of its size within the picture.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct RandomCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of rows of the result.
    #[n(1)]
    pub height: u32,
    /// The number of columns of the result.
    #[n(2)]
    pub width: u32,
    /// The seed; with `None` every task draws its own seed.
    #[n(3)]
    pub seed: Option<u64>,
}

/// Parameters of `random_resized_crop`.
///
/// The size of the area is drawn uniformly from the range of scales, its aspect ratio log-uniformly from the
/// range of ratios. After ten draws that do not fit the picture, the largest central area within the ratios
/// is taken.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// The number of rows of the result.
    #[n(1)]
    pub height: u32,
    /// The number of columns of the result.
    #[n(2)]
    pub width: u32,
    /// The smallest area, as a fraction of the image's area.
    #[n(3)]
    #[serde(default = "scale_min_default")]
    pub scale_min: f64,
    /// The largest area, as a fraction of the image's area.
    #[n(4)]
    #[serde(default = "scale_max_default")]
    pub scale_max: f64,
    /// The smallest aspect ratio, as width / height.
    #[n(5)]
    #[serde(default = "ratio_min_default")]
    pub ratio_min: f64,
    /// The largest aspect ratio, as width / height.
    #[n(6)]
    #[serde(default = "ratio_max_default")]
    pub ratio_max: f64,
    /// The seed; with `None` every task draws its own seed.
    #[n(7)]
    pub seed: Option<u64>,
    /// The method; `None` means [`ResizeMethod::Bilinear`].
    #[n(8)]
    pub method: Option<ResizeMethod>,
    /// The switch for antialiasing when the area shrinks: see [`Resize::antialias`].
    #[n(9)]
    pub antialias: Option<bool>,
}

/// The axis along which a picture is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum FlipAxis {
    /// The order of columns is reversed.
    #[n(0)]
    LeftRight,
    /// The order of rows is reversed.
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
    /// The axis along which the picture is mirrored.
    #[n(1)]
    pub axis: FlipAxis,
    /// The probability that a picture is mirrored; `None` means always.
    #[n(2)]
    pub probability: Option<f64>,
    /// The seed; with `None` every task draws its own seed.
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
    /// Resizes bilinearly to `height` x `width` pixels.
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
    /// Crops areas of 8 % to 100 % of a picture, with aspect ratios of 3:4 to 4:3, and resizes them to
    /// `height` x `width`.
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
