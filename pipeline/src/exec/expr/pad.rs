//! Padding of tensors along their axes.

use crate::exec::value::{Dims, Tensor};
use crate::graph::{PadTo, Span, axis_of};

use super::items::count;
use super::shaping::sliced;
use super::strided::{Run, assembled};

/// Pads `of` with items of `value`: `pads` has the numbers of items before and after each axis.
pub(crate) fn padded(of: &Tensor, value: &Tensor, pads: &[(u64, u64)]) -> Result<Tensor, String> {
    let from = of.dims();
    if pads.len() != from.len() {
        return Err(format!(
            "found {} pads, expected one for each of {} dimensions",
            pads.len(),
            from.len()
        ));
    }
    let too_large = || "the result is too large".to_owned();
    let mut dims = Dims::new();
    for (dim, (before, behind)) in from.iter().zip(pads) {
        let padded = dim.checked_add(*before).and_then(|dim| dim.checked_add(*behind));
        dims.push(padded.ok_or_else(too_large)?);
    }
    let rank = from.len();
    let inner = from.last().map_or(1, |dim| *dim as usize);
    let rows = count(&from[..rank.saturating_sub(1)])?;
    let wide = dims.clone();
    assembled(dims, &[of], Some(value), |run| {
        if inner == 0 {
            return Ok(());
        }
        for row in 0..rows {
            // The row's place along each axis, shifted by the padding before the axis.
            let (mut rest, mut to, mut stride) = (row, 0usize, 1usize);
            for axis in (0..rank).rev() {
                let place = if axis + 1 == rank {
                    0
                } else {
                    let place = rest % from[axis] as usize;
                    rest /= from[axis] as usize;
                    place
                };
                to += (place + pads[axis].0 as usize) * stride;
                stride *= wide[axis] as usize;
            }
            run(Run {
                operand: 0,
                from: row * inner,
                stride: 1,
                to,
                items: inner,
            });
        }
        Ok(())
    })
}

/// Pads or truncates `of` to the length that `pad` states, along one axis.
pub(crate) fn padded_to(of: &Tensor, value: &Tensor, pad: PadTo) -> Result<Tensor, String> {
    let rank = of.dims().len();
    let axis = axis_of(pad.axis, rank)?;
    let dim = of.dims()[axis];
    if dim > pad.length {
        if !pad.truncate {
            return Err(format!(
                "axis {axis} has {dim} items, expected at most {}",
                pad.length
            ));
        }
        let mut spans = vec![Span::ALL; axis + 1];
        spans[axis] = (..pad.length.cast_signed()).into();
        return sliced(of, &spans);
    }
    let mut pads = vec![(0, 0); rank];
    pads[axis].1 = pad.length - dim;
    padded(of, value, &pads)
}
