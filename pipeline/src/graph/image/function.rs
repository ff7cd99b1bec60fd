//! The functions of pictures: their names and where the picture is.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::on_error::OnError;

use super::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, Grayscale, HwcToChw, Normalize,
    RandomCrop, RandomResizedCrop, Resize,
};

/// A function of a picture, applied by a `map`.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageFunction {
    /// Decodes an encoded picture into `u8[height, width, channels]`.
    Decode(DecodeImage),
    /// Resizes a picture to a fixed size.
    Resize(Resize),
    /// A fixed area of a picture.
    Crop(Crop),
    /// A crop of the same share of both sides, around the centre.
    CentralCrop(CentralCrop),
    /// An area of a fixed size, around the centre.
    CenterCrop(CenterCrop),
    /// A random area of a fixed size.
    RandomCrop(RandomCrop),
    /// A random area, resized to a fixed size.
    RandomResizedCrop(RandomResizedCrop),
    /// Mirrors a picture, always or by chance.
    Flip(Flip),
    /// Changes brightness, contrast, saturation and hue by chance.
    ColorJitter(ColorJitter),
    /// Scales every channel to a mean and a deviation.
    Normalize(Normalize),
    /// Takes the colours out.
    Grayscale(Grayscale),
    /// Puts the channels first.
    HwcToChw(HwcToChw),
}

impl ImageFunction {
    /// The names of all of them.
    pub(crate) const NAMES: &'static [&'static str] = &[
        "decode_image",
        "resize",
        "crop",
        "central_crop",
        "center_crop",
        "random_crop",
        "random_resized_crop",
        "flip",
        "color_jitter",
        "normalize",
        "rgb_to_grayscale",
        "hwc_to_chw",
    ];

    /// The name of the operation on the wire.
    pub fn op_name(&self) -> &'static str {
        match self {
            ImageFunction::Decode(_) => "decode_image",
            ImageFunction::Resize(_) => "resize",
            ImageFunction::Crop(_) => "crop",
            ImageFunction::CentralCrop(_) => "central_crop",
            ImageFunction::CenterCrop(_) => "center_crop",
            ImageFunction::RandomCrop(_) => "random_crop",
            ImageFunction::RandomResizedCrop(_) => "random_resized_crop",
            ImageFunction::Flip(_) => "flip",
            ImageFunction::ColorJitter(_) => "color_jitter",
            ImageFunction::Normalize(_) => "normalize",
            ImageFunction::Grayscale(_) => "rgb_to_grayscale",
            ImageFunction::HwcToChw(_) => "hwc_to_chw",
        }
    }

    /// The component that holds the picture.
    pub fn component(&self) -> &str {
        match self {
            ImageFunction::Decode(decode) => &decode.component,
            ImageFunction::Resize(resize) => &resize.component,
            ImageFunction::Crop(crop) => &crop.component,
            ImageFunction::CentralCrop(crop) => &crop.component,
            ImageFunction::CenterCrop(crop) => &crop.component,
            ImageFunction::RandomCrop(crop) => &crop.component,
            ImageFunction::RandomResizedCrop(crop) => &crop.component,
            ImageFunction::Flip(flip) => &flip.component,
            ImageFunction::ColorJitter(jitter) => &jitter.component,
            ImageFunction::Normalize(normalize) => &normalize.component,
            ImageFunction::Grayscale(grayscale) => &grayscale.component,
            ImageFunction::HwcToChw(layout) => &layout.component,
        }
    }

    /// Returns whether it leaves out elements.
    pub(crate) fn may_skip(&self) -> bool {
        matches!(self, ImageFunction::Decode(decode) if decode.on_error == OnError::Skip)
    }
}
