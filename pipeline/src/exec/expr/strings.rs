//! Operations on tensors of strings, item by item.

use bytes::Bytes;
use millstream_element::Dtype;
use smallvec::SmallVec;

use crate::exec::value::{Dims, Tensor, TensorData};
use crate::graph::Binary;

use super::broadcast::Walk;
use super::items::{TENSOR_BYTES_MAX, built, bytes_of, count};

/// Returns the items of a string tensor. The items share the bytes of the tensor.
pub(crate) fn items_of(tensor: &Tensor) -> Vec<Bytes> {
    match tensor.data() {
        TensorData::Shared(bytes) => vec![bytes.clone()],
        TensorData::Strings(items) => items.handles().collect(),
        TensorData::Inline(_) | TensorData::Rows(_) | TensorData::Fill(_) => {
            let mut items = Vec::new();
            tensor.for_each_string(&mut |item| items.push(Bytes::copy_from_slice(item)));
            items
        }
    }
}

/// Returns the strings that `f` makes from each item.
pub(crate) fn mapped(
    of: &Tensor,
    dtype: Dtype,
    f: impl Fn(&Bytes) -> Result<Bytes, String>,
) -> Result<Tensor, String> {
    if let (TensorData::Shared(bytes), []) = (of.data(), of.dims()) {
        return Ok(Tensor::from_parts(
            dtype,
            Dims::new(),
            TensorData::Shared(f(bytes)?),
        ));
    }
    let items = items_of(of);
    let mapped: Vec<Bytes> = items.iter().map(f).collect::<Result<_, _>>()?;
    bounded(mapped.iter())?;
    Tensor::strings(dtype, of.dims(), mapped)
}

/// Returns the numbers that `f` makes from each string. `f` writes each number as one item of `dtype`.
pub(crate) fn numbered(
    of: &Tensor,
    dtype: Dtype,
    f: impl Fn(&[u8], &mut [u8]) -> Result<(), String>,
) -> Result<Tensor, String> {
    let size = dtype.item_bytes().unwrap_or(1);
    built(dtype, Dims::from_slice(of.dims()), |into| {
        let mut rest = into.chunks_exact_mut(size);
        let mut failed = Ok(());
        of.for_each_string(&mut |item| {
            if let (Some(into), Ok(())) = (rest.next(), &failed) {
                failed = f(item, into);
            }
        });
        failed
    })
}

/// Returns whether pairs of strings are equal or differ, or concatenates each pair.
pub(crate) fn binary(binary: Binary, one: &Tensor, other: &Tensor) -> Result<Tensor, String> {
    if binary == Binary::Add {
        return joined(&[one, other], "");
    }
    let walk = Walk::new([one.dims(), other.dims()])?;
    let (left, right) = (references(one), references(other));
    built(Dtype::Bool, walk.dims.clone(), |into| {
        walk.rows(|at, [first, second]| {
            for nth in 0..walk.inner {
                let (one, other) = (
                    left[first + nth * walk.steps[0]],
                    right[second + nth * walk.steps[1]],
                );
                into[at + nth] = u8::from((one == other) == (binary == Binary::Eq));
            }
            Ok(())
        })
    })
}

/// Joins the strings of all operands item by item, with `separator` between them.
pub(crate) fn joined(operands: &[&Tensor], separator: &str) -> Result<Tensor, String> {
    let first = operands
        .first()
        .ok_or_else(|| "expected at least one tensor to join, found none".to_owned())?;
    let mut all = (*first).clone();
    for operand in operands.iter().skip(1) {
        let walk = Walk::new([all.dims(), operand.dims()])?;
        let mut joined = Vec::with_capacity(count(&walk.dims)?.min(1 << 16));
        {
            let (left, right) = (references(&all), references(operand));
            let mut total = 0usize;
            walk.rows(|_, [first, second]| {
                for nth in 0..walk.inner {
                    let one = left[first + nth * walk.steps[0]];
                    let other = right[second + nth * walk.steps[1]];
                    total =
                        total.saturating_add(one.len() + separator.len() + other.len() + size_of::<Bytes>());
                    within(total)?;
                    joined.push(Bytes::from([one, separator.as_bytes(), other].concat()));
                }
                Ok(())
            })?;
        }
        all = Tensor::strings(first.dtype(), &walk.dims, joined)?;
    }
    Ok(all)
}

/// Joins the strings along the last axis, with `separator` between them.
pub(crate) fn joined_along(of: &Tensor, separator: &str) -> Result<Tensor, String> {
    let Some((along, rest)) = of.dims().split_last() else {
        return Err("a scalar has no axis to join along".to_owned());
    };
    let items = references(of);
    let along = *along as usize;
    let rows = count(rest)?;
    let joined = (0..rows).map(|row| {
        let row = items.get(row * along..(row + 1) * along).unwrap_or_default();
        Bytes::from(row.join(separator.as_bytes()))
    });
    Tensor::strings(of.dtype(), rest, joined.collect())
}

/// Returns the strings of `yes` where `condition` is true, and the strings of `no` elsewhere.
pub(crate) fn chosen(
    walk: &Walk<3>,
    condition: &Tensor,
    yes: &Tensor,
    no: &Tensor,
) -> Result<Tensor, String> {
    let truths = bytes_of(condition)?;
    let (yes_items, no_items) = (items_of(yes), items_of(no));
    let items = count(&walk.dims)?;
    within(items.saturating_mul(size_of::<Bytes>()))?;
    let mut chosen = Vec::with_capacity(items);
    walk.rows(|_, [truth, one, other]| {
        for nth in 0..walk.inner {
            chosen.push(if truths[truth + nth * walk.steps[0]] != 0 {
                yes_items[one + nth * walk.steps[1]].clone()
            } else {
                no_items[other + nth * walk.steps[2]].clone()
            });
        }
        Ok(())
    })?;
    Tensor::strings(yes.dtype(), &walk.dims, chosen)
}

fn references(tensor: &Tensor) -> SmallVec<[&[u8]; 4]> {
    let mut items = SmallVec::new();
    tensor.for_each_string(&mut |item| items.push(item));
    items
}

fn bounded<'b>(items: impl Iterator<Item = &'b Bytes>) -> Result<(), String> {
    within(items.map(Bytes::len).fold(0, usize::saturating_add))
}

fn within(bytes: usize) -> Result<(), String> {
    if bytes > TENSOR_BYTES_MAX {
        return Err(format!(
            "the result exceeds the {TENSOR_BYTES_MAX} bytes of a tensor"
        ));
    }
    Ok(())
}
