//! Construction of tensors from pieces of other tensors, for numbers and strings alike.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::exec::value::{Dims, Tensor};

use super::items::{Item, TENSOR_BYTES_MAX, built, bytes_of, count};
use super::strings;

/// A run of items that are copied from one tensor into another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The number of the operand from which items are copied.
    pub(crate) operand: usize,
    /// The place of the run's first item in the operand.
    pub(crate) from: usize,
    /// The distance from an item to its successor in the operand.
    pub(crate) stride: isize,
    /// The place of the first item in the result.
    pub(crate) to: usize,
    /// The number of items in the run.
    pub(crate) items: usize,
}

/// Returns the tensor of the shape `dims` that `runs` assemble from `operands`, which have one dtype. Items
/// that no run writes are copies of the scalar `background`, or zeros and empty strings.
pub(crate) fn assembled(
    dims: Dims,
    operands: &[&Tensor],
    background: Option<&Tensor>,
    runs: impl FnOnce(&mut dyn FnMut(Run)) -> Result<(), String>,
) -> Result<Tensor, String> {
    let dtype = operands
        .first()
        .ok_or_else(|| "expected at least one tensor to assemble, found none".to_owned())?
        .dtype();
    let Some(size) = dtype.item_bytes() else {
        return assembled_strings(dims, operands, background, runs);
    };
    let from: SmallVec<[&[u8]; 4]> = operands
        .iter()
        .map(|tensor| bytes_of(tensor))
        .collect::<Result<_, _>>()?;
    built(dtype, dims, |into| {
        if let Some(background) = background {
            let item = bytes_of(background)?;
            if item.iter().any(|byte| *byte != 0) {
                into.chunks_exact_mut(size)
                    .for_each(|into| into.copy_from_slice(item));
            }
        }
        runs(&mut |run| copy(size, from[run.operand], into, run))
    })
}

fn copy(size: usize, from: &[u8], into: &mut [u8], run: Run) {
    let into = &mut into[run.to * size..][..run.items * size];
    if run.stride == 1 {
        into.copy_from_slice(&from[run.from * size..][..run.items * size]);
        return;
    }
    match size {
        1 => strided::<u8>(from, into, run),
        2 => strided::<u16>(from, into, run),
        4 => strided::<u32>(from, into, run),
        8 => strided::<u64>(from, into, run),
        _ => {
            let mut at = run.from;
            for into in into.chunks_exact_mut(size) {
                into.copy_from_slice(&from[at * size..][..size]);
                at = at.wrapping_add_signed(run.stride);
            }
        }
    }
}

fn strided<T: Item>(from: &[u8], into: &mut [u8], run: Run) {
    let mut at = run.from;
    for into in into.chunks_exact_mut(T::BYTES) {
        T::read(&from[at * T::BYTES..][..T::BYTES]).write(into);
        at = at.wrapping_add_signed(run.stride);
    }
}

fn assembled_strings(
    dims: Dims,
    operands: &[&Tensor],
    background: Option<&Tensor>,
    runs: impl FnOnce(&mut dyn FnMut(Run)) -> Result<(), String>,
) -> Result<Tensor, String> {
    let items = count(&dims)?;
    if items > TENSOR_BYTES_MAX / size_of::<Bytes>() {
        return Err(format!(
            "the result of {items} strings exceeds the limit of a tensor"
        ));
    }
    let from: Vec<Vec<Bytes>> = operands.iter().map(|tensor| strings::items_of(tensor)).collect();
    let empty = background
        .map(strings::items_of)
        .and_then(|items| items.first().cloned());
    let mut into = vec![empty.unwrap_or_default(); items];
    runs(&mut |run| {
        let mut at = run.from;
        for into in &mut into[run.to..][..run.items] {
            *into = from[run.operand][at].clone();
            at = at.wrapping_add_signed(run.stride);
        }
    })?;
    Tensor::strings(operands[0].dtype(), &dims, into)
}

/// Returns the tensor of the shape `dims` whose items are taken from `of` at regular strides. The first item
/// is at `first`; each step along an axis of the result moves by the axis's stride.
pub(crate) fn strided_view(
    of: &Tensor,
    dims: Dims,
    first: usize,
    strides: &[isize],
) -> Result<Tensor, String> {
    let rank = dims.len();
    let inner_items = dims.last().map_or(Ok(1), |dim| count(&[*dim]))?;
    let inner_stride = strides.last().copied().unwrap_or(1);
    let rows = count(&dims[..rank.saturating_sub(1)])?;
    let outer: SmallVec<[usize; 4]> = dims[..rank.saturating_sub(1)]
        .iter()
        .map(|dim| *dim as usize)
        .collect();
    assembled(dims, &[of], None, |run| {
        if inner_items == 0 {
            return Ok(());
        }
        let mut places: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
        let mut from = first;
        for row in 0..rows {
            run(Run {
                operand: 0,
                from,
                stride: inner_stride,
                to: row * inner_items,
                items: inner_items,
            });
            for axis in (0..outer.len()).rev() {
                places[axis] += 1;
                from = from.wrapping_add_signed(strides[axis]);
                if places[axis] < outer[axis] {
                    break;
                }
                // The place moves back along the whole axis.
                let back = strides[axis].wrapping_mul(outer[axis] as isize);
                from = from.wrapping_add_signed(back.wrapping_neg());
                places[axis] = 0;
            }
        }
        Ok(())
    })
}

/// Returns the distance between neighbours along each axis of `dims`, in items.
pub(crate) fn strides_of(dims: &[u64]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(1, dims.len());
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(dims[axis] as isize);
    }
    strides
}
