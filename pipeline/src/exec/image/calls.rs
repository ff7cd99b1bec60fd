//! The calls of functions from pictures to pictures. A call decides which computation is needed, and defers
//! the computation.

use std::borrow::Cow;

use millstream_element::Dtype;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use crate::exec::call::{Call, Place};
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::random::Seeds;
use crate::exec::value::{Tensor, Value};
use crate::graph::{ColorJitter, Flip, ImageFunction, Normalize, ResizeMethod};
use crate::image::Area;
use crate::image::colour::{Adjustment, Normaliser};
use crate::image::resize::Filter;

use super::area::Rule;
use super::deferred::{Deferred, Step};
use super::picture::{Shape, component};

pub(crate) struct ImageCall {
    op: &'static str,
    /// The index of the component in the element.
    component: usize,
    seeds: Seeds,
    action: Action,
}

/// The action of a function on every image.
pub(crate) enum Action {
    /// Takes a part of the image.
    Crop(Rule),
    /// Takes a part of the image, or the whole image, and resizes it.
    Resize(Rule, Sizing),
    Flip(Flip),
    Jitter(ColorJitter),
    Normalise(Normalize),
    Grey(u8),
    Planes,
}

/// A size, and the filter with which an image is resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizing {
    pub(crate) size: (u32, u32),
    pub(crate) filter: Filter,
}

impl Sizing {
    fn new(size: (u32, u32), method: Option<ResizeMethod>, antialias: Option<bool>) -> Sizing {
        let filter = Filter {
            method: method.unwrap_or_default(),
            antialias: antialias.unwrap_or(true),
        };
        Sizing { size, filter }
    }
}

impl Action {
    /// Returns the action of `function`, or `None` for decoding, whose input is not an image yet.
    pub(crate) fn of(function: &ImageFunction) -> Option<Action> {
        Some(match function {
            ImageFunction::Decode(_) => return None,
            ImageFunction::Crop(crop) => Action::Crop(Rule::fixed(crop)),
            ImageFunction::CentralCrop(crop) => Action::Crop(Rule::Central(crop.fraction)),
            ImageFunction::CenterCrop(crop) => Action::Crop(Rule::Center(crop.height, crop.width)),
            ImageFunction::RandomCrop(crop) => Action::Crop(Rule::Random(crop.height, crop.width)),
            ImageFunction::RandomResizedCrop(crop) => {
                let sizing = Sizing::new((crop.height, crop.width), crop.method, crop.antialias);
                Action::Resize(Rule::RandomResized(crop.clone()), sizing)
            }
            ImageFunction::Resize(resize) => {
                let sizing = Sizing::new((resize.height, resize.width), resize.method, resize.antialias);
                Action::Resize(Rule::Whole, sizing)
            }
            ImageFunction::Flip(flip) => Action::Flip(flip.clone()),
            ImageFunction::ColorJitter(jitter) => Action::Jitter(jitter.clone()),
            ImageFunction::Normalize(normalize) => Action::Normalise(normalize.clone()),
            ImageFunction::Grayscale(grayscale) => Action::Grey(grayscale.channels),
            ImageFunction::HwcToChw(_) => Action::Planes,
        })
    }

    /// Returns the rule for the part of the image and its new size, if the action only crops or resizes.
    pub(crate) fn part(self) -> Option<(Rule, Option<Sizing>)> {
        match self {
            Action::Crop(rule) => Some((rule, None)),
            // An image of which no part is cropped is decoded by the ordinary call.
            Action::Resize(Rule::Whole, _) => None,
            Action::Resize(rule, sizing) => Some((rule, Some(sizing))),
            Action::Flip(_) | Action::Jitter(_) | Action::Normalise(_) | Action::Grey(_) | Action::Planes => {
                None
            }
        }
    }
}

/// Returns the seed of `function`, if the function has a seed of its own.
pub(crate) fn own_seed(function: &ImageFunction) -> Option<u64> {
    match function {
        ImageFunction::RandomCrop(crop) => crop.seed,
        ImageFunction::RandomResizedCrop(crop) => crop.seed,
        ImageFunction::Flip(flip) => flip.seed,
        ImageFunction::ColorJitter(jitter) => jitter.seed,
        ImageFunction::Decode(_)
        | ImageFunction::Resize(_)
        | ImageFunction::Crop(_)
        | ImageFunction::CentralCrop(_)
        | ImageFunction::CenterCrop(_)
        | ImageFunction::Normalize(_)
        | ImageFunction::Grayscale(_)
        | ImageFunction::HwcToChw(_) => None,
    }
}

impl ImageCall {
    pub(crate) fn new(
        node: usize,
        function: &ImageFunction,
        action: Action,
        component: usize,
        shared: &Shared,
    ) -> ImageCall {
        ImageCall {
            op: function.op_name(),
            component,
            seeds: shared.seeds(node, own_seed(function)),
            action,
        }
    }

    fn refused(&self, reason: impl Into<String>) -> ExecError {
        ExecError::new(ErrorKind::Value, self.op, reason)
    }

    /// Returns the step for a picture of `shape`, with the dtype and the dimensions of the result. Returns
    /// `None` if the picture stays unchanged.
    fn step(&self, shape: &Shape, at: &Place<'_>) -> Result<Option<(Step, Dtype, [u64; 3])>, ExecError> {
        let generator = || self.seeds.draws(at.pass).generator(at.position);
        let part = |rule: &Rule| {
            rule.area(shape.height, shape.width, generator)
                .map_err(|reason| self.refused(reason))
        };
        let unlike = |wanted: &str| {
            self.refused(format!(
                "expected an image of {wanted}, found {}{:?}",
                shape.dtype,
                shape.dims()
            ))
        };
        let [height, width, channels] = shape.dims();
        Ok(Some(match &self.action {
            Action::Crop(rule) => {
                let area = part(rule)?;
                if area.is_whole(shape.height, shape.width) {
                    return Ok(None);
                }
                let dims = [area.height.into(), area.width.into(), channels];
                (Step::Crop(area), shape.dtype, dims)
            }
            Action::Resize(rule, sizing) => {
                if !matches!(shape.dtype, Dtype::U8 | Dtype::F32) || !(1..=4).contains(&shape.channels) {
                    return Err(unlike("u8 or f32 with 1 to 4 channels"));
                }
                resized(part(rule)?, *sizing, shape)
            }
            Action::Flip(flip) => {
                let probability = flip.probability.unwrap_or(1.0);
                if probability < 1.0 && generator().random::<f64>() >= probability {
                    return Ok(None);
                }
                (Step::Flip(flip.axis), shape.dtype, shape.dims())
            }
            Action::Jitter(jitter) => {
                if shape.dtype != Dtype::U8 || !matches!(shape.channels, 1 | 3) {
                    return Err(unlike("u8 with 1 or 3 channels"));
                }
                let adjustments = drawn_adjustments(jitter, &mut generator());
                (Step::Jitter(adjustments), shape.dtype, shape.dims())
            }
            Action::Normalise(normalize) => {
                let numbers = normalize.mean.len().max(normalize.std.len());
                if !matches!(shape.dtype, Dtype::U8 | Dtype::F32) || ![1, shape.channels].contains(&numbers) {
                    return Err(unlike(&format!("u8 or f32 with {numbers} channels")));
                }
                let normaliser =
                    Normaliser::new(normalize.scale, &normalize.mean, &normalize.std, shape.channels);
                (Step::Normalise(normaliser), Dtype::F32, shape.dims())
            }
            Action::Grey(count) => {
                if shape.dtype != Dtype::U8 || shape.channels != 3 {
                    return Err(unlike("u8 with 3 channels"));
                }
                (Step::Grey(*count), Dtype::U8, [height, width, (*count).into()])
            }
            Action::Planes => (Step::Planes, shape.dtype, [channels, height, width]),
        }))
    }
}

/// Returns the step that resizes `area` of a picture of `shape`.
pub(crate) fn resized(area: Area, sizing: Sizing, shape: &Shape) -> (Step, Dtype, [u64; 3]) {
    let dims = [sizing.size.0.into(), sizing.size.1.into(), shape.channels as u64];
    let step = Step::Resize {
        area,
        size: sizing.size,
        filter: sizing.filter,
    };
    (step, shape.dtype, dims)
}

/// Returns whether the step reads each pixel several times, so that the pixels should be computed once before
/// the step.
fn reads_around(step: &Step) -> bool {
    matches!(step, Step::Resize { .. })
}

/// Draws the adjustments, and shuffles their order.
fn drawn_adjustments(jitter: &ColorJitter, generator: &mut Pcg64Mcg) -> Vec<Adjustment> {
    // All four shares are always drawn, so that an additional adjustment does not change the draws of the
    // other adjustments.
    let mut draw = |range: Option<(f64, f64)>| {
        let share = generator.random::<f64>();
        range.map(|(from, to)| from + (to - from) * share)
    };
    let mut adjustments = [
        draw(jitter.brightness).map(Adjustment::Brightness),
        draw(jitter.contrast).map(Adjustment::Contrast),
        draw(jitter.saturation).map(Adjustment::Saturation),
        draw(jitter.hue).map(Adjustment::Hue),
    ];
    adjustments.shuffle(generator);
    adjustments.into_iter().flatten().collect()
}

impl Call for ImageCall {
    fn name(&self) -> &str {
        self.op
    }

    fn call(&self, mut value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let tensor = component(self.op, &value, self.component)?;
        let shape = Shape::of(self.op, tensor)?;
        let Some((step, dtype, dims)) = self.step(&shape, at)? else {
            return Ok(Some(value));
        };
        let input: Cow<'_, Tensor> = if reads_around(&step) {
            Cow::Owned(tensor.settled()?)
        } else {
            Cow::Borrowed(tensor)
        };
        let deferred = Deferred {
            op: self.op,
            input: input.into_owned(),
            shape,
            step,
            origin: at.origin.cloned(),
        };
        value[self.component] = deferred.tensor(dtype, dims)?;
        Ok(Some(value))
    }
}
