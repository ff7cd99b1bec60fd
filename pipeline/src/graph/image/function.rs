//! The functions of pictures: their names, and the components that hold the pictures.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::on_error::OnError;

use super::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, Grayscale, HwcToChw, Normalize,
    RandomCrop, RandomResizedCrop, Resize,
};

/// A function of a picture that a `map` applies to every element.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageFunction {
    /// Decodes an encoded picture into `u8[height, width, channels]`.
    Decode(DecodeImage),
    /// Resizes a picture to a fixed size.
    Resize(Resize),
    /// Crops a fixed area of a picture.
    Crop(Crop),
    /// Crops the same fraction of both sides, around the centre.
    CentralCrop(CentralCrop),
    /// Crops an area of a fixed size, around the centre.
    CenterCrop(CenterCrop),
    /// Crops an area of a fixed size at a random place.
    RandomCrop(RandomCrop),
    /// Crops a random area and resizes it to a fixed size.
    RandomResizedCrop(RandomResizedCrop),
    /// Mirrors a picture, always or with a probability.
    Flip(Flip),
    /// Changes brightness, contrast, saturation and hue by random amounts.
    ColorJitter(ColorJitter),
    /// Subtracts a mean from every channel and divides by a deviation.
    Normalize(Normalize),
    /// Converts a picture to shades of grey.
    Grayscale(Grayscale),
    /// Moves the channels to the first dimension.
    HwcToChw(HwcToChw),
}

impl ImageFunction {
    /// The names of all picture functions.
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

    /// Returns the name of the operation on the wire.
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

    /// Returns the name of the component that holds the picture.
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

    /// Returns whether the function may skip elements.
    pub(crate) fn may_skip(&self) -> bool {
        matches!(self, ImageFunction::Decode(decode) if decode.on_error == OnError::Skip)
    }
}
