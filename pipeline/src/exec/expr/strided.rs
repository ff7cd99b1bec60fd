//! Tensors put together of pieces of others, numbers and strings alike.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::exec::value::{Dims, Tensor};

use super::items::{Item, TENSOR_BYTES_MAX, built, bytes_of, count};
use super::strings;

/// Items that are copied from one tensor into another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// From which operand.
    pub(crate) operand: usize,
    /// The first of its items.
    pub(crate) from: usize,
    /// How far its next one is.
    pub(crate) stride: isize,
    /// Destination of the first item.
    pub(crate) to: usize,
    /// How many there are.
    pub(crate) items: usize,
}

/// The tensor of the shape `dims` that the runs make of `operands`, all of one dtype; elsewhere it has items
/// of `background`, a scalar, or zeros and empty strings.
pub(crate) fn assembled(
    dims: Dims,
    operands: &[&Tensor],
    background: Option<&Tensor>,
    runs: impl FnOnce(&mut dyn FnMut(Run)) -> Result<(), String>,
) -> Result<Tensor, String> {
    let dtype = operands
        .first()
        .ok_or_else(|| "there is nothing to put together".to_owned())?
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
        return Err(format!("the result of {items} strings is too large"));
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

/// The tensor whose item at every place of `dims` is the one of `of` at `first`, further by `strides` along
/// each axis.
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
                // As far back as it went, which is the whole axis.
                let back = strides[axis].wrapping_mul(outer[axis] as isize);
                from = from.wrapping_add_signed(back.wrapping_neg());
                places[axis] = 0;
            }
        }
        Ok(())
    })
}

/// Returns how far apart neighbours along each axis of `dims` are, in items.
pub(crate) fn strides_of(dims: &[u64]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(1, dims.len());
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(dims[axis] as isize);
    }
    strides
}
