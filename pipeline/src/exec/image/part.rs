//! The call that fuses `decode_image` with a crop of the decoded image. Only the needed part is decoded, if
//! the format permits it. The result equals that of two calls, except that damage outside of the cropped part
//! of a JPEG is not noticed.

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::random::Seeds;
use crate::exec::value::{Tensor, Value};
use crate::image::Area;

use super::area::Rule;
use super::calls::{Sizing, resized};
use super::decode::{DecodeCall, Failed};
use super::deferred::Deferred;
use super::picture::Shape;

pub(crate) struct PartCall {
    decode: DecodeCall,
    /// The operation that takes the part.
    op: &'static str,
    seeds: Seeds,
    rule: Rule,
    sizing: Option<Sizing>,
}

impl PartCall {
    pub(crate) fn new(
        decode: DecodeCall,
        op: &'static str,
        seeds: Seeds,
        rule: Rule,
        sizing: Option<Sizing>,
    ) -> PartCall {
        PartCall {
            decode,
            op,
            seeds,
            rule,
            sizing,
        }
    }

    fn part(&self, value: &Value, at: &Place<'_>) -> Result<Tensor, Failed> {
        let encoded = self.decode.open(value)?;
        let (height, width) = (encoded.height(), encoded.width());
        let generator = || self.seeds.draws(at.pass).generator(at.position);
        let area = match self.rule.area(height, width, generator) {
            Ok(area) => area,
            Err(reason) => {
                // The whole image is decoded first, because an error in the image takes precedence over a
                // small size.
                self.decode.pixels(encoded, Area::whole(height, width))?;
                return Err(Failed::Ours(ExecError::new(ErrorKind::Value, self.op, reason)));
            }
        };
        let pixels = self.decode.pixels(encoded, area)?;
        match self.sizing {
            None => Ok(pixels),
            Some(sizing) => self.resized(pixels, sizing, at).map_err(Failed::Ours),
        }
    }

    fn resized(&self, pixels: Tensor, sizing: Sizing, at: &Place<'_>) -> Result<Tensor, ExecError> {
        let shape = Shape::of(self.op, &pixels)?;
        let (step, dtype, dims) = resized(Area::whole(shape.height, shape.width), sizing, &shape);
        let deferred = Deferred {
            op: self.op,
            input: pixels,
            shape,
            step,
            origin: at.origin.cloned(),
        };
        deferred.tensor(dtype, dims)
    }
}

impl Call for PartCall {
    fn name(&self) -> &str {
        self.op
    }

    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let part = self.part(&value, at);
        self.decode.settle(value, part, at)
    }
}
