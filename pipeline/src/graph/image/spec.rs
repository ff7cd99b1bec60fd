//! The specs of picture functions' results. A number of channels that the spec leaves open is checked for
//! each element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};

use crate::graph::error::AnalysisError;
use crate::graph::spec::replaced;

use super::{ImageFunction, Normalize};

/// The dtype and dimensions of a picture; `None` is an unknown dimension.
struct Shape {
    dtype: Dtype,
    height: Option<u64>,
    width: Option<u64>,
    channels: Option<u64>,
}

impl ImageFunction {
    /// Returns the spec of the function's results for elements of `input`.
    pub(crate) fn spec(&self, input: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        let yields = |spec: &TensorSpec| self.yields(spec);
        replaced(self.op_name(), input, self.component(), self.wants(), yields)
    }

    /// Returns the description of the expected component, for messages.
    fn wants(&self) -> &'static str {
        match self {
            ImageFunction::Decode(_) => "a byte string",
            ImageFunction::Resize(_) | ImageFunction::RandomResizedCrop(_) => {
                "an image of u8 or f32 [height, width, 1 to 4]"
            }
            ImageFunction::Crop(_)
            | ImageFunction::CentralCrop(_)
            | ImageFunction::CenterCrop(_)
            | ImageFunction::RandomCrop(_)
            | ImageFunction::Flip(_)
            | ImageFunction::HwcToChw(_) => "an image [height, width, channels] of numbers",
            ImageFunction::ColorJitter(_) => "an image u8[height, width, 1 or 3]",
            ImageFunction::Normalize(_) => {
                "an image of u8 or f32 [height, width, channels] with as many channels as there are means and deviations"
            }
            ImageFunction::Grayscale(_) => "an image u8[height, width, 3]",
        }
    }

    /// Returns the spec of the result for the component `spec`; `None` if the component does not have the
    /// expected form.
    fn yields(&self, spec: &TensorSpec) -> Option<TensorSpec> {
        if let ImageFunction::Decode(decode) = self {
            let encoded = spec.accepts(Dtype::Bytes, &[]) || spec.accepts(Dtype::String, &[]);
            let channels = (decode.channels() > 0).then_some(u64::from(decode.channels()));
            return encoded.then(|| TensorSpec::with_dims(Dtype::U8, &[None, None, channels]));
        }
        let shape = Shape::of(spec)?;
        let (height, width, channels) = (shape.height, shape.width, shape.channels);
        let cut = |height: u32, width: u32| {
            let fits = shape.height.is_none_or(|rows| rows >= height.into())
                && shape.width.is_none_or(|columns| columns >= width.into());
            fits.then(|| shape.sized(height, width))
        };
        match self {
            ImageFunction::Decode(_) => None,
            ImageFunction::Resize(resize) => shape
                .resizable()
                .then(|| shape.sized(resize.height, resize.width)),
            ImageFunction::RandomResizedCrop(crop) => {
                shape.resizable().then(|| shape.sized(crop.height, crop.width))
            }
            ImageFunction::Crop(crop) => {
                // The addition cannot overflow, because all numbers are at most 2^16.
                cut(crop.top + crop.height, crop.left + crop.width)?;
                Some(shape.sized(crop.height, crop.width))
            }
            ImageFunction::CenterCrop(crop) => cut(crop.height, crop.width),
            ImageFunction::RandomCrop(crop) => cut(crop.height, crop.width),
            ImageFunction::CentralCrop(crop) => {
                let kept = |side: Option<u64>| side.map(|side| kept(side, crop.fraction));
                Some(TensorSpec::with_dims(
                    shape.dtype,
                    &[kept(height), kept(width), channels],
                ))
            }
            ImageFunction::Flip(_) => Some(spec.clone()),
            ImageFunction::ColorJitter(_) => {
                let fits = shape.dtype == Dtype::U8 && channels.is_none_or(|count| matches!(count, 1 | 3));
                fits.then(|| spec.clone())
            }
            ImageFunction::Normalize(normalize) => {
                let wanted = channels_of(normalize);
                let fits = matches!(shape.dtype, Dtype::U8 | Dtype::F32)
                    && channels.is_none_or(|count| wanted == 1 || count == wanted);
                let channels = channels.or((wanted > 1).then_some(wanted));
                fits.then(|| TensorSpec::with_dims(Dtype::F32, &[height, width, channels]))
            }
            ImageFunction::Grayscale(grayscale) => {
                let fits = shape.dtype == Dtype::U8 && channels.is_none_or(|count| count == 3);
                let dims = [height, width, Some(grayscale.channels.into())];
                fits.then(|| TensorSpec::with_dims(Dtype::U8, &dims))
            }
            ImageFunction::HwcToChw(_) => {
                Some(TensorSpec::with_dims(shape.dtype, &[channels, height, width]))
            }
        }
    }
}

/// Returns the number of pixels that `central_crop` keeps of a side.
pub(crate) fn kept(side: u64, fraction: f64) -> u64 {
    // The conversion is exact for sides below 2^53. At most half of a side is cut off at each end.
    let cut = ((side as f64 - side as f64 * fraction) / 2.0) as u64;
    side - 2 * cut
}

/// Returns the number of channels for which `normalize` has numbers; 1 fits any picture.
fn channels_of(normalize: &Normalize) -> u64 {
    normalize.mean.len().max(normalize.std.len()) as u64
}

impl Shape {
    /// Reads the shape of a picture from `spec`; returns `None` if `spec` cannot describe a picture.
    fn of(spec: &TensorSpec) -> Option<Shape> {
        spec.dtype().item_bytes()?;
        let (height, width, channels) = match spec.dims() {
            None => (None, None, None),
            Some([height, width, channels]) => (*height, *width, *channels),
            Some(_) => return None,
        };
        Some(Shape {
            dtype: spec.dtype(),
            height,
            width,
            channels,
        })
    }

    fn resizable(&self) -> bool {
        matches!(self.dtype, Dtype::U8 | Dtype::F32)
            && self.channels.is_none_or(|channels| (1..=4).contains(&channels))
    }

    fn sized(&self, height: u32, width: u32) -> TensorSpec {
        TensorSpec::with_dims(
            self.dtype,
            &[Some(height.into()), Some(width.into()), self.channels],
        )
    }
}
