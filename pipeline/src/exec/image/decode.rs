//! The call of `decode_image`.

use millstream_element::Dtype;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::skipped::Skipped;
use crate::exec::value::{Tensor, Value};
use crate::graph::{DecodeImage, OnError};
use crate::image::{Area, Decoded, Encoded};

use super::picture::component;

const OP: &str = "decode_image";

pub(crate) struct DecodeCall {
    /// The index of the component in the element.
    component: usize,
    channels: u8,
    pixels_max: u64,
    on_error: OnError,
    skipped: Skipped,
}

impl DecodeCall {
    pub(crate) fn new(decode: &DecodeImage, component: usize, skipped: Skipped) -> DecodeCall {
        DecodeCall {
            component,
            channels: decode.channels(),
            pixels_max: decode.pixels_max,
            on_error: decode.on_error,
            skipped,
        }
    }

    /// Reads the header of the picture in `value`.
    pub(crate) fn open<'v>(&self, value: &'v Value) -> Result<Encoded<'v>, Failed> {
        let tensor = component(OP, value, self.component).map_err(Failed::Ours)?;
        let no_bytes = || ExecError::new(ErrorKind::Internal, OP, "the image is not one byte string");
        let encoded = tensor.contiguous().ok_or_else(no_bytes).map_err(Failed::Ours)?;
        Encoded::open(encoded, self.pixels_max).map_err(Failed::broken)
    }

    /// Decodes the pixels of `area`.
    pub(crate) fn pixels(&self, encoded: Encoded<'_>, area: Area) -> Result<Tensor, Failed> {
        let decoded = encoded.decode(area, self.channels).map_err(Failed::broken)?;
        tensor_of(decoded).map_err(Failed::Ours)
    }

    /// Completes the element of a decoded image. Stores `decoded` in the element, or treats a broken image as
    /// the function's parameters state.
    pub(crate) fn settle(
        &self,
        mut value: Value,
        decoded: Result<Tensor, Failed>,
        at: &Place<'_>,
    ) -> Result<Option<Value>, ExecError> {
        match (decoded, self.on_error) {
            (Ok(tensor), _) => {
                value[self.component] = tensor;
                Ok(Some(value))
            }
            (Err(Failed::Broken(error)), OnError::Skip) => {
                self.skipped.record(&error.at(at.origin).at_position(at.position));
                Ok(None)
            }
            (Err(Failed::Broken(error) | Failed::Ours(error)), _) => Err(error),
        }
    }
}

/// The reason why an image was not decoded.
pub(crate) enum Failed {
    /// The image is broken, and the element can be left out.
    Broken(ExecError),
    /// The failure is not the fault of the image.
    Ours(ExecError),
}

impl Failed {
    fn broken(reason: String) -> Failed {
        Failed::Broken(ExecError::new(ErrorKind::Value, OP, reason))
    }
}

impl Call for DecodeCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let decoded = self.open(&value).and_then(|encoded| {
            let area = Area::whole(encoded.height(), encoded.width());
            self.pixels(encoded, area)
        });
        self.settle(value, decoded, at)
    }
}

fn tensor_of(decoded: Decoded) -> Result<Tensor, ExecError> {
    let dims = [
        decoded.height.into(),
        decoded.width.into(),
        decoded.channels.into(),
    ];
    Tensor::fixed(Dtype::U8, &dims, decoded.pixels)
        .map_err(|reason| ExecError::new(ErrorKind::Internal, OP, reason))
}
