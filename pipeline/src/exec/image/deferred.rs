//! Pictures that are not computed yet. A picture is computed when it is written, straight into its
//! destination, such as its row of a batch in the slot.

use std::cell::Cell;
use std::sync::Arc;

use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::value::{Fill, Tensor};
use crate::graph::FlipAxis;
use crate::image::colour::{Adjustment, Normaliser, to_grey};
use crate::image::resize::{Channel, Filter, Source, resize};
use crate::image::{Area, flip, layout};

use millstream_element::Dtype;

use super::picture::Shape;

/// Maximum bytes of working memory that a thread keeps from one picture to the next picture.
const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// One step of an image's processing.
#[derive(Debug)]
pub(crate) enum Step {
    /// Resizes an area of the image.
    Resize {
        area: Area,
        size: (u32, u32),
        filter: Filter,
    },
    /// Takes an area of the image.
    Crop(Area),
    /// Mirrors the image.
    Flip(FlipAxis),
    /// Adjusts the colours of the image.
    Jitter(Vec<Adjustment>),
    /// Scales the values of the image.
    Normalise(Normaliser),
    /// Converts the image to grey, with this number of equal channels.
    Grey(u8),
    /// Moves the channels to the front, one plane after the other.
    Planes,
}

/// A picture that is computed from another picture when it is written.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) op: &'static str,
    pub(crate) input: Tensor,
    pub(crate) shape: Shape,
    pub(crate) step: Step,
    pub(crate) origin: Option<Origin>,
}

impl Deferred {
    /// Returns the tensor that stands for the computation.
    pub(crate) fn tensor(self, dtype: Dtype, dims: [u64; 3]) -> Result<Tensor, ExecError> {
        let op = self.op;
        Tensor::deferred(dtype, &dims, Arc::new(self))
            .map_err(|reason| ExecError::new(ErrorKind::Caller, op, reason))
    }
}

impl Fill for Deferred {
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        let shape = &self.shape;
        let (pixel_bytes, width) = (shape.pixel_bytes(), shape.width as usize);
        match &self.step {
            // These steps change pixels in place.
            Step::Flip(FlipAxis::LeftRight) => {
                self.input.write_to(destination)?;
                flip::left_right(destination, width * pixel_bytes, pixel_bytes);
                Ok(())
            }
            Step::Flip(FlipAxis::UpDown) => {
                self.input.write_to(destination)?;
                flip::up_down(destination, width * pixel_bytes);
                Ok(())
            }
            Step::Jitter(adjustments) => {
                self.input.write_to(destination)?;
                for adjustment in adjustments {
                    adjustment.apply(destination, shape.channels);
                }
                Ok(())
            }
            Step::Resize { area, size, filter } => {
                let channel = if shape.dtype == Dtype::F32 {
                    Channel::F32
                } else {
                    Channel::U8
                };
                self.with_pixels(|pixels| {
                    let source = Source {
                        pixels,
                        height: shape.height,
                        width: shape.width,
                        channel,
                        channels: shape.channels,
                    };
                    resize(source, *area, *size, *filter, destination)
                })
            }
            Step::Crop(area) => self.with_pixels(|pixels| {
                area.copy(pixels, shape.width, pixel_bytes, destination);
                Ok(())
            }),
            Step::Normalise(normaliser) => self.with_pixels(|pixels| {
                if shape.dtype == Dtype::F32 {
                    normaliser.floats(pixels, destination);
                } else {
                    normaliser.bytes(pixels, destination);
                }
                Ok(())
            }),
            Step::Grey(channels) => self.with_pixels(|pixels| {
                to_grey(pixels, *channels, destination);
                Ok(())
            }),
            Step::Planes => self.with_pixels(|pixels| {
                let item_bytes = pixel_bytes / shape.channels;
                layout::planes(pixels, shape.channels, item_bytes, destination);
                Ok(())
            }),
        }
    }

    fn held_bytes(&self) -> usize {
        self.input.held_bytes()
    }

    /// The inputs were checked when the step was made, so the step itself never fails.
    fn is_certain(&self) -> bool {
        self.input.is_certain()
    }
}

impl Deferred {
    /// Calls `make` with the pixels of the input. Deferred pixels are computed first.
    fn with_pixels(&self, make: impl FnOnce(&[u8]) -> Result<(), String>) -> Result<(), ExecError> {
        let failed =
            |reason: String| ExecError::new(ErrorKind::Internal, self.op, reason).at(self.origin.as_ref());
        if let Some(pixels) = self.input.contiguous() {
            return make(pixels).map_err(failed);
        }
        let mut scratch = SCRATCH.take();
        scratch.resize(self.input.size_bytes(), 0);
        let made = self
            .input
            .write_to(&mut scratch)
            .and_then(|()| make(&scratch).map_err(failed));
        if scratch.capacity() <= SCRATCH_BYTES_MAX {
            SCRATCH.set(scratch);
        }
        made
    }
}

thread_local! {
    /// The buffer is taken while it is in use, so that nested computations get buffers of their own.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
