//! The encoding of picture functions as bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value};

use crate::graph::codec::{Encoded, encoded};
use crate::graph::error::GraphError;
use crate::graph::named::named_params;

use super::ImageFunction;

impl ImageFunction {
    /// Encodes the parameters.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, GraphError> {
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

    /// Decodes the function with the name of the operation in `params`.
    pub(crate) fn decode(params: &Encoded<'_>) -> Result<ImageFunction, GraphError> {
        Ok(match params.name() {
            "decode_image" => ImageFunction::Decode(params.params()?),
            "resize" => ImageFunction::Resize(params.params()?),
            "crop" => ImageFunction::Crop(params.params()?),
            "central_crop" => ImageFunction::CentralCrop(params.params()?),
            "center_crop" => ImageFunction::CenterCrop(params.params()?),
            "random_crop" => ImageFunction::RandomCrop(params.params()?),
            "random_resized_crop" => ImageFunction::RandomResizedCrop(params.params()?),
            "flip" => ImageFunction::Flip(params.params()?),
            "color_jitter" => ImageFunction::ColorJitter(params.params()?),
            "normalize" => ImageFunction::Normalize(params.params()?),
            "rgb_to_grayscale" => ImageFunction::Grayscale(params.params()?),
            "hwc_to_chw" => ImageFunction::HwcToChw(params.params()?),
            _ => return Err(params.malformed("is not a known function of pictures")),
        })
    }

    /// Makes the function of pictures called `op` of its parameters by name; `None` for another operation.
    pub(crate) fn named(op: &str, parameters: &Map<String, Value>) -> Option<Result<ImageFunction, String>> {
        let of = parameters.clone();
        Some(match op {
            "decode_image" => named_params(of).map(ImageFunction::Decode),
            "resize" => named_params(of).map(ImageFunction::Resize),
            "crop" => named_params(of).map(ImageFunction::Crop),
            "central_crop" => named_params(of).map(ImageFunction::CentralCrop),
            "center_crop" => named_params(of).map(ImageFunction::CenterCrop),
            "random_crop" => named_params(of).map(ImageFunction::RandomCrop),
            "random_resized_crop" => named_params(of).map(ImageFunction::RandomResizedCrop),
            "flip" => named_params(of).map(ImageFunction::Flip),
            "color_jitter" => named_params(of).map(ImageFunction::ColorJitter),
            "normalize" => named_params(of).map(ImageFunction::Normalize),
            "rgb_to_grayscale" => named_params(of).map(ImageFunction::Grayscale),
            "hwc_to_chw" => named_params(of).map(ImageFunction::HwcToChw),
            _ => return None,
        })
    }
}
