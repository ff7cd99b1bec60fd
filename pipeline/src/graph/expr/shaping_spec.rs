//! The specs of the results of operations that change shapes.

use millstream_element::{Dtype, TensorSpec};

use super::kinds::{is_integer, is_text, wants};
use super::op::{DecodeRaw, PadTo, Shaping, Span};
use super::shapes::{Known, axis_of, broadcast_all, tensor};

/// Returns the spec of the result of `shaping` for the operands `given`.
///
/// # Errors
/// The reason why the operands do not fit, as text.
pub(crate) fn shaping_spec(shaping: &Shaping, given: &[&TensorSpec]) -> Result<TensorSpec, String> {
    let of = given
        .first()
        .copied()
        .ok_or_else(|| "expected an operand, found none".to_owned())?;
    let dims = of.dims();
    let dtype = of.dtype();
    Ok(match shaping {
        Shaping::Len => {
            wants(dims != Some(&[]), "a scalar has no length")?;
            TensorSpec::scalar(Dtype::I64)
        }
        Shaping::Shape => TensorSpec::with_dims(Dtype::I64, &[dims.map(|dims| dims.len() as u64)]),
        Shaping::Concat(axis) => tensor(dtype, concatenated(*axis, given)?),
        Shaping::Stack(axis) => tensor(dtype, stacked(*axis, given)?),
        Shaping::Slice(spans) => tensor(dtype, dims.map(|dims| sliced(spans, dims)).transpose()?),
        Shaping::Gather(axis) => tensor(dtype, gathered(*axis, given)?),
        Shaping::Reshape(wanted) => tensor(dtype, Some(reshaped(wanted, dims)?)),
        Shaping::ExpandDims(axis) => match dims {
            None => tensor(dtype, None),
            Some(dims) => {
                let mut dims = dims.to_vec();
                let axis = axis_of(*axis, dims.len() + 1)?;
                dims.insert(axis, Some(1));
                tensor(dtype, Some(dims))
            }
        },
        Shaping::Squeeze(axes) => tensor(
            dtype,
            dims.map(|dims| squeezed(axes, dims)).transpose()?.flatten(),
        ),
        Shaping::Transpose(axes) => tensor(dtype, dims.map(|dims| transposed(axes, dims)).transpose()?),
        Shaping::Pad(pads) => {
            scalar_value(given)?;
            tensor(dtype, dims.map(|dims| padded(pads, dims)).transpose()?)
        }
        Shaping::PadTo(pad) => {
            scalar_value(given)?;
            tensor(dtype, dims.map(|dims| padded_to(*pad, dims)).transpose()?)
        }
        Shaping::OneHot(one_hot) => {
            wants(is_integer(dtype), "expected classes as integers, cast them first")?;
            let to = one_hot.dtype.0;
            wants(
                !is_text(to),
                "expected numbers or booleans as the dtype of the result",
            )?;
            tensor(to, dims.map(|dims| with_last(dims, Some(one_hot.depth))))
        }
        Shaping::BroadcastTo(wanted) => {
            let wanted = TensorSpec::fixed(dtype, wanted);
            let broadcast = broadcast_all(&[of, &wanted])?;
            let grows = broadcast.is_none_or(|broadcast| Some(broadcast.as_slice()) == wanted.dims());
            wants(grows, "the operand does not broadcast to that shape")?;
            wanted
        }
        Shaping::DecodeRaw(raw) => {
            wants(is_text(dtype), "expected byte strings or strings")?;
            raw_spec(*raw, dims)?
        }
    })
}

fn with_last(dims: &[Option<u64>], last: Option<u64>) -> Known {
    dims.iter().copied().chain([last]).collect()
}

fn raw_spec(raw: DecodeRaw, dims: Option<&[Option<u64>]>) -> Result<TensorSpec, String> {
    wants(
        !is_text(raw.dtype.0) && raw.dtype.0 != Dtype::Bool,
        "expected numbers as the dtype of the result: for booleans, decode as u8 and compare",
    )?;
    Ok(tensor(raw.dtype.0, dims.map(|dims| with_last(dims, None))))
}

fn scalar_value(given: &[&TensorSpec]) -> Result<(), String> {
    let scalar = given.get(1).is_some_and(|value| value.dims() == Some(&[]));
    wants(scalar, "expected a scalar as the padding value")
}

fn concatenated(axis: i64, given: &[&TensorSpec]) -> Result<Option<Known>, String> {
    let mut all: Option<Known> = None;
    for spec in given {
        let Some(dims) = spec.dims() else {
            return Ok(None);
        };
        let axis = axis_of(axis, dims.len())?;
        let Some(all) = &mut all else {
            all = Some(dims.to_vec());
            continue;
        };
        wants(all.len() == dims.len(), "the tensors have different ranks")?;
        for (index, (one, other)) in all.iter_mut().zip(dims).enumerate() {
            *one = if index == axis {
                let sum = |(one, other): (u64, u64)| one.checked_add(other);
                one.zip(*other).and_then(sum)
            } else {
                same(*one, *other)?
            };
        }
    }
    Ok(all)
}

fn stacked(axis: i64, given: &[&TensorSpec]) -> Result<Option<Known>, String> {
    let mut all: Option<Known> = None;
    for spec in given {
        let Some(dims) = spec.dims() else {
            return Ok(None);
        };
        let Some(all) = &mut all else {
            all = Some(dims.to_vec());
            continue;
        };
        wants(all.len() == dims.len(), "the tensors have different ranks")?;
        for (one, other) in all.iter_mut().zip(dims) {
            *one = same(*one, *other)?;
        }
    }
    let mut dims = all.unwrap_or_default();
    let axis = axis_of(axis, dims.len() + 1)?;
    dims.insert(axis, Some(given.len() as u64));
    Ok(Some(dims))
}

fn same(one: Option<u64>, other: Option<u64>) -> Result<Option<u64>, String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(format!(
            "the tensors differ in a dimension: {one} and {other} items"
        )),
        (Some(known), _) | (None, Some(known)) => Ok(Some(known)),
        (None, None) => Ok(None),
    }
}

fn sliced(spans: &[Span], dims: &[Option<u64>]) -> Result<Known, String> {
    if spans.len() > dims.len() {
        return Err(format!(
            "found {} spans for {} dimensions",
            spans.len(),
            dims.len()
        ));
    }
    let mut left = Vec::with_capacity(dims.len());
    for (span, dim) in spans.iter().zip(dims) {
        match (span, dim) {
            (Span::At(place), Some(dim)) => {
                if span.within(*dim).is_none() {
                    return Err(format!("index {place} is outside of {dim} items"));
                }
            }
            (Span::At(_), None) => {}
            (Span::Range { .. }, None) => left.push(None),
            (Span::Range { .. }, Some(dim)) => left.push(span.within(*dim).map(|(_, _, count)| count)),
        }
    }
    left.extend_from_slice(&dims[spans.len()..]);
    Ok(left)
}

impl Span {
    /// Returns the first index, the step and the number of indices that the span takes of `dim` items; `None`
    /// for a single index outside.
    pub(crate) fn within(&self, dim: u64) -> Option<(u64, i64, u64)> {
        let dim = i64::try_from(dim).unwrap_or(i64::MAX);
        let from_end = |place: i64| {
            if place < 0 {
                place.saturating_add(dim)
            } else {
                place
            }
        };
        match *self {
            Span::At(place) => {
                let place = from_end(place);
                let inside = (0..dim).contains(&place);
                inside.then_some((place.unsigned_abs(), 1, 1))
            }
            Span::Range { start, stop, step } => {
                // Backwards, indices range from the last down to -1, which is the bound in front of the first
                // item.
                let (low, high) = if step > 0 { (0, dim) } else { (-1, dim - 1) };
                let bounded = |place: i64| from_end(place).clamp(low, high);
                let (first, end) = if step > 0 {
                    (start.map_or(low, bounded), stop.map_or(high, bounded))
                } else {
                    (start.map_or(high, bounded), stop.map_or(low, bounded))
                };
                let distance = if step > 0 { end - first } else { first - end };
                let count = u64::try_from(distance)
                    .unwrap_or(0)
                    .div_ceil(step.unsigned_abs().max(1));
                let first = if count == 0 { 0 } else { first };
                Some((first.unsigned_abs(), step, count))
            }
        }
    }
}

fn gathered(axis: i64, given: &[&TensorSpec]) -> Result<Option<Known>, String> {
    let [of, indices] = given else {
        return Err("expected a tensor and indices".to_owned());
    };
    wants(
        is_integer(indices.dtype()),
        "expected integers as indices, cast them first",
    )?;
    let (Some(dims), Some(indices)) = (of.dims(), indices.dims()) else {
        return Ok(None);
    };
    let axis = axis_of(axis, dims.len())?;
    let parts = [&dims[..axis], indices, &dims[axis + 1..]];
    Ok(Some(parts.concat()))
}

fn reshaped(wanted: &[i64], dims: Option<&[Option<u64>]>) -> Result<Known, String> {
    let known = |items: u64, dim: Option<u64>| items.checked_mul(dim?);
    let items = dims.and_then(|dims| dims.iter().copied().try_fold(1, known));
    let others = wanted.iter().filter(|dim| **dim != -1);
    let others = others.map(|dim| u64::try_from(*dim).ok()).try_fold(1, known);
    let fitting = match (items, others) {
        (Some(items), Some(others)) => {
            let fits = if wanted.contains(&-1) {
                others != 0 && items.is_multiple_of(others)
            } else {
                items == others
            };
            wants(
                fits,
                &format!("{items} items do not fit the dimensions {wanted:?}"),
            )?;
            items.checked_div(others)
        }
        (Some(_) | None, _) => None,
    };
    Ok(wanted
        .iter()
        .map(|dim| u64::try_from(*dim).ok().or(fitting))
        .collect())
}

/// Returns the dimensions without `axes`; `None` if the rank of the result is unknown.
fn squeezed(axes: &[i64], dims: &[Option<u64>]) -> Result<Option<Known>, String> {
    if axes.is_empty() {
        let known = dims.iter().all(Option::is_some);
        let left = dims.iter().copied().filter(|dim| *dim != Some(1));
        return Ok(known.then(|| left.collect()));
    }
    let axes = axes.iter().map(|axis| axis_of(*axis, dims.len()));
    let axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
    for axis in &axes {
        wants(
            dims[*axis].is_none_or(|dim| dim == 1),
            "expected axes of one item to remove",
        )?;
    }
    let left = dims.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    Ok(Some(left.map(|(_, dim)| *dim).collect()))
}

fn transposed(axes: &[u64], dims: &[Option<u64>]) -> Result<Known, String> {
    if axes.is_empty() {
        return Ok(dims.iter().rev().copied().collect());
    }
    wants(
        axes.len() == dims.len(),
        "the number of axes differs from the rank",
    )?;
    Ok(axes.iter().map(|axis| dims[*axis as usize]).collect())
}

fn padded(pads: &[(u64, u64)], dims: &[Option<u64>]) -> Result<Known, String> {
    wants(
        pads.len() == dims.len(),
        "the number of axes differs from the rank",
    )?;
    let pairs = dims.iter().zip(pads);
    pairs
        .map(|(dim, (before, behind))| match dim {
            None => Ok(None),
            Some(dim) => {
                let sum = dim.checked_add(*before).and_then(|dim| dim.checked_add(*behind));
                sum.map(Some).ok_or_else(|| "the result is too large".to_owned())
            }
        })
        .collect()
}

fn padded_to(pad: PadTo, dims: &[Option<u64>]) -> Result<Known, String> {
    let axis = axis_of(pad.axis, dims.len())?;
    if let Some(dim) = dims[axis]
        && dim > pad.length
        && !pad.truncate
    {
        return Err(format!(
            "expected a length of at most {}, found {dim}",
            pad.length
        ));
    }
    let mut dims = dims.to_vec();
    dims[axis] = Some(pad.length);
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes Python's `range(dim)[start:stop:step]` item by item.
    fn naive(dim: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
        let places: Vec<i64> = (0..dim).collect();
        let bound = |place: Option<i64>, default: i64| match place {
            None => default,
            Some(place) if place < 0 => place + dim,
            Some(place) => place,
        };
        let mut taken = Vec::new();
        let (mut at, stop) = if step > 0 {
            (bound(start, 0).max(0), bound(stop, dim))
        } else {
            (bound(start, dim - 1).min(dim - 1), bound(stop, -1).max(-1))
        };
        while (step > 0 && at < stop && at < dim) || (step < 0 && at > stop && at >= 0) {
            taken.push(places[at as usize]);
            at += step;
        }
        taken
    }

    #[test]
    fn spans_take_what_python_takes() {
        let bounds = || [None].into_iter().chain((-7..=7).map(Some));
        for dim in 0i64..=5 {
            for start in bounds() {
                for stop in bounds() {
                    for step in [-3, -2, -1, 1, 2, 3] {
                        let span = Span::Range { start, stop, step };
                        let (first, step_found, count) = span.within(dim as u64).unwrap();
                        let found: Vec<i64> = (0..count as i64)
                            .map(|nth| first as i64 + nth * step_found)
                            .collect();
                        assert_eq!(found, naive(dim, start, stop, step), "{dim} {span:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_spans_do_not_overflow() {
        for start in [i64::MIN, -1, 0, i64::MAX] {
            for step in [i64::MIN, -1, 1, i64::MAX] {
                let span = Span::Range {
                    start: Some(start),
                    stop: Some(-start.saturating_add(1)),
                    step,
                };
                assert!(span.within(u64::MAX).is_some());
            }
            assert_eq!(Span::At(start).within(0), None);
        }
    }
}
