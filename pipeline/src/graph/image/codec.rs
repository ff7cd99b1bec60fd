//! The functions of pictures as bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::codec::{Parameters, encoded};
use crate::graph::error::GraphError;

use super::ImageFunction;

impl ImageFunction {
    /// The parameters, encoded by themselves.
    pub(in crate::graph) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            ImageFunction::Decode(params) => encoded(params),
            ImageFunction::Resize(params) => encoded(params),
            ImageFunction::Crop(params) => encoded(params),
            ImageFunction::CentralCrop(params) => encoded(params),
            ImageFunction::CenterCrop(params) => encoded(params),
            ImageFunction::RandomCrop(params) => encoded(params),
            ImageFunction::RandomResizedCrop(params) => encoded(params),
            ImageFunction::Flip(params) => encoded(params),
            ImageFunction::ColorJitter(params) => encoded(params),
            ImageFunction::Normalize(params) => encoded(params),
            ImageFunction::Grayscale(params) => encoded(params),
            ImageFunction::HwcToChw(params) => encoded(params),
        }
    }

    /// The function that `params` are of; `None` when they are of none of pictures.
    pub(in crate::graph) fn decode(params: &Parameters<'_>) -> Result<Option<ImageFunction>, GraphError> {
        Ok(Some(match params.op {
            "decode_image" => ImageFunction::Decode(params.decode()?),
            "resize" => ImageFunction::Resize(params.decode()?),
            "crop" => ImageFunction::Crop(params.decode()?),
            "central_crop" => ImageFunction::CentralCrop(params.decode()?),
            "center_crop" => ImageFunction::CenterCrop(params.decode()?),
            "random_crop" => ImageFunction::RandomCrop(params.decode()?),
            "random_resized_crop" => ImageFunction::RandomResizedCrop(params.decode()?),
            "flip" => ImageFunction::Flip(params.decode()?),
            "color_jitter" => ImageFunction::ColorJitter(params.decode()?),
            "normalize" => ImageFunction::Normalize(params.decode()?),
            "rgb_to_grayscale" => ImageFunction::Grayscale(params.decode()?),
            "hwc_to_chw" => ImageFunction::HwcToChw(params.decode()?),
            _ => return Ok(None),
        }))
    }
}
