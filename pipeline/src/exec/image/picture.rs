//! Tensors that are pictures, of the shape `[height, width, channels]`.

use millstream_element::Dtype;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Tensor, Value};

/// The dtype and the dimensions of a picture. No dimension is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dtype: Dtype,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) channels: usize,
}

impl Shape {
    /// Returns the shape of the tensor, or an error if the tensor is not a picture.
    pub(crate) fn of(op: &str, tensor: &Tensor) -> Result<Shape, ExecError> {
        let (dtype, dims) = (tensor.dtype(), tensor.dims());
        let refused = || {
            ExecError::new(
                ErrorKind::Value,
                op,
                format!("expected an image [height, width, channels], found {dtype}{dims:?}"),
            )
        };
        let [height, width, channels] = dims else {
            return Err(refused());
        };
        if dtype.item_bytes().is_none() || dims.contains(&0) {
            return Err(refused());
        }
        let side = |side: u64| u32::try_from(side).map_err(|_| refused());
        Ok(Shape {
            dtype,
            height: side(*height)?,
            width: side(*width)?,
            channels: usize::try_from(*channels).map_err(|_| refused())?,
        })
    }

    pub(crate) fn dims(&self) -> [u64; 3] {
        [self.height.into(), self.width.into(), self.channels as u64]
    }

    /// Returns the bytes of a pixel. The product cannot overflow, because the picture exists in memory.
    pub(crate) fn pixel_bytes(&self) -> usize {
        self.channels * self.dtype.item_bytes().unwrap_or(0)
    }
}

/// Returns the component with the index `component`.
pub(crate) fn component<'v>(op: &str, value: &'v Value, component: usize) -> Result<&'v Tensor, ExecError> {
    value
        .get(component)
        .ok_or_else(|| ExecError::new(ErrorKind::Internal, op, "the component is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_refused() {
        for tensor in [
            Tensor::i64(7),
            Tensor::string("x"),
            Tensor::fixed(Dtype::U8, &[2, 0, 3], Vec::new()).unwrap(),
        ] {
            let error = Shape::of("resize", &tensor).unwrap_err();
            assert!(error.to_string().contains("expected an image"), "{error}");
        }
    }
}
