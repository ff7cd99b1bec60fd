//! `resize`, and the deferred resizing it shares with `random_resized_crop`: the pixels are written straight
//! to where they stay, in a batch's row of the slot if the map is not parallel.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use millstream_element::Dtype;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::value::{Fill, Tensor, TensorData, Value};

pub(crate) struct ResizeCall {
    /// The component's place in the element.
    pub(crate) component: usize,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

impl Call for ResizeCall {
    fn name(&self) -> &str {
        "resize"
    }

    fn call(&self, mut value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let image = Picture::of("resize", &value, self.component)?;
        let area = Area {
            top: 0,
            left: 0,
            height: image.height,
            width: image.width,
        };
        let resized = image.resized("resize", area, self.height, self.width, at.origin.cloned())?;
        value[self.component] = resized;
        Ok(Some(value))
    }
}

/// A decoded picture: `u8[height, width, 3]`.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) height: u32,
    pub(crate) width: u32,
    pixels: Bytes,
}

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) top: u32,
    pub(crate) left: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

impl Picture {
    /// The picture in a component, computing it if it is deferred.
    pub(crate) fn of(op: &str, value: &Value, component: usize) -> Result<Picture, ExecError> {
        let wrong = |message: String| ExecError::new(ErrorKind::Data, op, message);
        let tensor = value
            .get(component)
            .ok_or_else(|| wrong("the component is missing".to_owned()))?;
        let shape = match (tensor.dtype(), tensor.dims()) {
            (Dtype::U8, [height, width, 3]) => u32::try_from(*height).ok().zip(u32::try_from(*width).ok()),
            (_, _) => None,
        };
        let refused = || {
            wrong(format!(
                "{}{:?} is no image u8[height, width, 3]",
                tensor.dtype(),
                tensor.dims()
            ))
        };
        let (height, width) = shape
            .filter(|(height, width)| *height > 0 && *width > 0)
            .ok_or_else(refused)?;
        let settled = tensor.settled()?;
        let pixels = match settled.data() {
            TensorData::Shared(bytes) => bytes.clone(),
            TensorData::Inline(inline) => Bytes::copy_from_slice(inline.as_slice()),
            TensorData::Strings(_) | TensorData::Rows(_) | TensorData::Fill(_) => return Err(refused()),
        };
        Ok(Picture {
            height,
            width,
            pixels,
        })
    }

    /// `area` of the picture at another size, to be computed when it is written.
    pub(crate) fn resized(
        self,
        op: &'static str,
        area: Area,
        height: u32,
        width: u32,
        origin: Option<Arc<Origin>>,
    ) -> Result<Tensor, ExecError> {
        let dims = [u64::from(height), u64::from(width), 3];
        let fill = Resized {
            op,
            picture: self,
            area,
            height,
            width,
            origin,
        };
        Tensor::deferred(Dtype::U8, &dims, Arc::new(fill))
            .map_err(|reason| ExecError::new(ErrorKind::Internal, op, reason))
    }
}

/// A resizing not yet done.
#[derive(Debug)]
struct Resized {
    op: &'static str,
    picture: Picture,
    area: Area,
    height: u32,
    width: u32,
    origin: Option<Arc<Origin>>,
}

thread_local! {
    /// The resizer keeps its coefficients and row buffers from one picture to the next.
    static RESIZER: RefCell<Resizer> = RefCell::new(Resizer::new());
}

impl Fill for Resized {
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        let failed = |error: &dyn std::fmt::Display| {
            ExecError::new(ErrorKind::Internal, self.op, error.to_string()).at(self.origin.as_ref())
        };
        let picture = &self.picture;
        let source = ImageRef::new(picture.width, picture.height, &picture.pixels, PixelType::U8x3)
            .map_err(|error| failed(&error))?;
        let mut target = Image::from_slice_u8(self.width, self.height, destination, PixelType::U8x3)
            .map_err(|error| failed(&error))?;
        let Area {
            top,
            left,
            height,
            width,
        } = self.area;
        // A view of the area alone: pixels outside it have no part in the result.
        let area = CroppedImage::new(&source, left, top, width, height).map_err(|error| failed(&error))?;
        // Bilinear with the filter widened when shrinking, which is what `antialias` means elsewhere.
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        RESIZER
            .with_borrow_mut(|resizer| resizer.resize(&area, &mut target, &options))
            .map_err(|error| failed(&error))
    }

    fn held_bytes(&self) -> usize {
        self.picture.pixels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(height: u64, width: u64, pixel: impl Fn(u64, u64) -> u8) -> Value {
        let mut pixels = Vec::new();
        for y in 0..height {
            for x in 0..width {
                pixels.extend([pixel(y, x); 3]);
            }
        }
        Value::from_buf([Tensor::fixed(Dtype::U8, &[height, width, 3], pixels).unwrap()])
    }

    #[test]
    fn an_area_is_what_is_resized() {
        // Left half black, right half white.
        let value = picture(4, 8, |_, x| if x < 4 { 0 } else { 255 });
        let area = Area {
            top: 0,
            left: 4,
            height: 4,
            width: 4,
        };
        let image = Picture::of("test", &value, 0).unwrap();
        let resized = image
            .resized("test", area, 2, 2, None)
            .unwrap()
            .settled()
            .unwrap();
        assert_eq!(resized.contiguous().unwrap(), [255; 12]);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let value = Value::from_buf([Tensor::i64(7)]);
        assert!(
            Picture::of("resize", &value, 0)
                .unwrap_err()
                .to_string()
                .contains("no image")
        );
    }
}
