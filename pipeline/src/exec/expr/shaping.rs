//! Operations that read or change the shapes of tensors.

use millstream_element::Dtype;

use crate::exec::value::{Dims, Tensor};
use crate::graph::{DecodeRaw, OneHot, Span, axis_of};

use super::cast::cast;
use super::items::{Item, built, bytes_of, count, items};
use super::number::no_number;
use super::strided::{Run, assembled, strided_view, strides_of};
use super::strings;

/// Returns the leading dimension.
pub(crate) fn length(of: &Tensor) -> Result<Tensor, String> {
    let leading = of.dims().first();
    let leading = leading.ok_or_else(|| "a scalar has no length".to_owned())?;
    Ok(Tensor::i64(leading.cast_signed()))
}

/// Returns all dimensions as a vector.
pub(crate) fn shape(of: &Tensor) -> Result<Tensor, String> {
    let dims = of.dims();
    built(Dtype::I64, Dims::from_slice(&[dims.len() as u64]), |into| {
        for (dim, into) in dims.iter().zip(into.chunks_exact_mut(8)) {
            dim.write(into);
        }
        Ok(())
    })
}

/// Returns the items of a tensor with other dimensions.
pub(crate) fn with_dims(of: &Tensor, dims: Dims) -> Result<Tensor, String> {
    if count(&dims)? != count(of.dims())? {
        return Err(format!(
            "cannot reshape a tensor of the dimensions {:?} to {:?}: the numbers of items differ",
            of.dims(),
            dims.as_slice()
        ));
    }
    // Scalar strings have another form than string tensors, so the tensor is built again.
    if of.dtype().item_bytes().is_none() {
        return Tensor::strings(of.dtype(), &dims, strings::items_of(of));
    }
    Ok(Tensor::from_parts(of.dtype(), dims, of.data().clone()))
}

/// Returns the items of `of` with the dimensions `wanted`. A negative dimension is computed from the number
/// of items.
pub(crate) fn reshaped(of: &Tensor, wanted: &[i64]) -> Result<Tensor, String> {
    let known = wanted.iter().filter_map(|dim| u64::try_from(*dim).ok());
    let known: Dims = known.collect();
    let others = count(&known)? as u64;
    let items = count(of.dims())? as u64;
    let fitting = items.checked_div(others).unwrap_or(0);
    let dims = wanted.iter().map(|dim| u64::try_from(*dim).unwrap_or(fitting));
    with_dims(of, dims.collect())
}

/// Returns `of` with a new axis of one item at `axis`.
pub(crate) fn expanded(of: &Tensor, axis: i64) -> Result<Tensor, String> {
    let mut dims = Dims::from_slice(of.dims());
    let axis = axis_of(axis, dims.len() + 1)?;
    dims.insert(axis, 1);
    with_dims(of, dims)
}

/// Returns `of` without the axes `axes`. If `axes` is empty, all axes of one item are removed.
pub(crate) fn squeezed(of: &Tensor, axes: &[i64]) -> Result<Tensor, String> {
    let rank = of.dims().len();
    let axes = axes.iter().map(|axis| axis_of(*axis, rank));
    let axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
    if let Some(axis) = axes.iter().find(|axis| of.dims()[**axis] != 1) {
        return Err(format!(
            "cannot squeeze axis {axis}: expected 1 item, found {}",
            of.dims()[*axis]
        ));
    }
    let stays = |axis: usize, dim: u64| {
        if axes.is_empty() {
            dim != 1
        } else {
            !axes.contains(&axis)
        }
    };
    let dims = of.dims().iter().enumerate();
    let dims = dims
        .filter(|(axis, dim)| stays(*axis, **dim))
        .map(|(_, dim)| *dim);
    with_dims(of, dims.collect())
}

/// Returns `of` with its axes in the order `axes`. If `axes` is empty, the order is reversed.
pub(crate) fn transposed(of: &Tensor, axes: &[u64]) -> Result<Tensor, String> {
    let rank = of.dims().len();
    let axes: Vec<usize> = if axes.is_empty() {
        (0..rank).rev().collect()
    } else {
        axes.iter().map(|axis| *axis as usize).collect()
    };
    if axes.len() != rank {
        return Err(format!("expected {rank} axes, found {}", axes.len()));
    }
    let strides = strides_of(of.dims());
    let dims: Dims = axes.iter().map(|axis| of.dims()[*axis]).collect();
    let moved: Vec<isize> = axes.iter().map(|axis| strides[*axis]).collect();
    strided_view(of, dims, 0, &moved)
}

/// Broadcasts a tensor to the dimensions `wanted`.
pub(crate) fn broadcast_to(of: &Tensor, wanted: &[u64]) -> Result<Tensor, String> {
    let from = of.dims();
    let refused = || format!("{from:?} does not broadcast to {wanted:?}");
    let missing = wanted.len().checked_sub(from.len()).ok_or_else(refused)?;
    let own = strides_of(from);
    let mut strides = vec![0isize; wanted.len()];
    for (axis, dim) in from.iter().enumerate() {
        if *dim == wanted[missing + axis] {
            strides[missing + axis] = own[axis];
        } else if *dim != 1 {
            return Err(refused());
        }
    }
    strided_view(of, Dims::from_slice(wanted), 0, &strides)
}

/// Returns the part of `of` that `spans` select along the leading axes.
pub(crate) fn sliced(of: &Tensor, spans: &[Span]) -> Result<Tensor, String> {
    let from = of.dims();
    if spans.len() > from.len() {
        return Err(format!(
            "found {} spans, expected at most one for each of {} dimensions",
            spans.len(),
            from.len()
        ));
    }
    let own = strides_of(from);
    let (mut dims, mut strides) = (Dims::new(), Vec::with_capacity(from.len()));
    let mut first = 0isize;
    for (axis, dim) in from.iter().enumerate() {
        let span = spans.get(axis).copied().unwrap_or(Span::ALL);
        let taken = span.within(*dim);
        let outside = || format!("place {span:?} is outside of {dim} items along axis {axis}");
        let (place, step, items) = taken.ok_or_else(outside)?;
        if items > 0 {
            first = first.wrapping_add(own[axis].wrapping_mul(place as isize));
        }
        if let Span::Range { .. } = span {
            dims.push(items);
            strides.push(own[axis].wrapping_mul(step as isize));
        }
    }
    strided_view(of, dims, first.unsigned_abs(), &strides)
}

/// Concatenates the operands along `axis`.
pub(crate) fn concatenated(operands: &[&Tensor], axis: i64) -> Result<Tensor, String> {
    let first = operands
        .first()
        .ok_or_else(|| "expected at least one tensor to join, found none".to_owned())?;
    let axis = axis_of(axis, first.dims().len())?;
    let mut dims = Dims::from_slice(first.dims());
    dims[axis] = 0;
    for operand in operands {
        let mut others = Dims::from_slice(operand.dims());
        let Some(along) = others
            .get_mut(axis)
            .map(|along| std::mem::replace(along, dims[axis]))
        else {
            return Err("the tensors to join have different ranks".to_owned());
        };
        if others != dims {
            return Err(format!(
                "{:?} and {:?} differ in an axis other than axis {axis}",
                first.dims(),
                operand.dims()
            ));
        }
        dims[axis] = dims[axis]
            .checked_add(along)
            .ok_or_else(|| "the result is too large".to_owned())?;
    }
    let outer = count(&dims[..axis])?;
    let rows: Vec<usize> = operands
        .iter()
        .map(|operand| count(&operand.dims()[axis..]))
        .collect::<Result<_, _>>()?;
    assembled(dims, operands, None, |run| {
        let mut to = 0;
        for row in 0..outer {
            for (operand, items) in rows.iter().enumerate() {
                run(Run {
                    operand,
                    from: row * items,
                    stride: 1,
                    to,
                    items: *items,
                });
                to += items;
            }
        }
        Ok(())
    })
}

/// Stacks the operands along a new axis.
pub(crate) fn stacked(operands: &[&Tensor], axis: i64) -> Result<Tensor, String> {
    let expanded: Vec<Tensor> = operands
        .iter()
        .map(|operand| expanded(operand, axis))
        .collect::<Result<_, _>>()?;
    // A caller counts the new axis among the axes of the result.
    let axis = axis_of(axis, expanded.first().map_or(0, |first| first.dims().len()))?;
    concatenated(&expanded.iter().collect::<Vec<_>>(), axis as i64)
}

/// Returns the slices along `axis` that `indices` select.
pub(crate) fn gathered(of: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor, String> {
    let axis = axis_of(axis, of.dims().len())?;
    let along = of.dims()[axis];
    let wide = cast(indices, Dtype::I64, true)?;
    let mut places = Vec::with_capacity(count(wide.dims())?);
    for index in items::<i64>(bytes_of(&wide)?) {
        let taken = Span::At(index).within(along);
        let outside = || format!("index {index} is outside of {along} items along axis {axis}");
        places.push(taken.ok_or_else(outside)?.0 as usize);
    }
    let dims = [&of.dims()[..axis], indices.dims(), &of.dims()[axis + 1..]].concat();
    let outer = count(&of.dims()[..axis])?;
    let inner = count(&of.dims()[axis + 1..])?;
    assembled(Dims::from_vec(dims), &[of], None, |run| {
        for row in 0..outer {
            for (nth, place) in places.iter().enumerate() {
                run(Run {
                    operand: 0,
                    from: (row * along as usize + place) * inner,
                    stride: 1,
                    to: (row * places.len() + nth) * inner,
                    items: inner,
                });
            }
        }
        Ok(())
    })
}

/// Returns a vector for each item: 1 at the index that the item names, and 0 elsewhere.
pub(crate) fn one_hot(of: &Tensor, one_hot: OneHot) -> Result<Tensor, String> {
    let to = one_hot.dtype.0;
    let one = cast(&Tensor::i64(1), to, false)?;
    let one = bytes_of(&one)?;
    let indices = cast(of, Dtype::I64, true)?;
    let indices = bytes_of(&indices)?;
    let dims = of.dims().iter().copied().chain([one_hot.depth]).collect();
    built(to, dims, |into| {
        let depth = one_hot.depth as usize;
        if depth == 0 {
            return Ok(());
        }
        for (index, row) in items::<i64>(indices).zip(into.chunks_exact_mut(depth * one.len())) {
            if let Ok(index) = usize::try_from(index)
                && index < depth
            {
                row[index * one.len()..][..one.len()].copy_from_slice(one);
            }
        }
        Ok(())
    })
}

/// Returns the numbers whose bytes are the strings of `of`.
pub(crate) fn decoded_raw(of: &Tensor, raw: DecodeRaw) -> Result<Tensor, String> {
    let dtype = raw.dtype.0;
    let size = dtype.item_bytes().ok_or_else(|| no_number(dtype))?;
    let mut all: Vec<&[u8]> = Vec::new();
    of.for_each_string(&mut |item| all.push(item));
    let length = all.first().map_or(0, |first| first.len());
    if let Some((index, other)) = all.iter().enumerate().find(|(_, item)| item.len() != length) {
        return Err(format!(
            "string {index} has {} bytes, expected {length} bytes as in string 0",
            other.len()
        ));
    }
    if !length.is_multiple_of(size) {
        return Err(format!("{length} bytes are not a whole number of {dtype} items"));
    }
    let dims = of.dims().iter().copied().chain([(length / size) as u64]);
    built(dtype, dims.collect(), |into| {
        if length == 0 {
            return Ok(());
        }
        for (item, into) in all.iter().zip(into.chunks_exact_mut(length)) {
            into.copy_from_slice(item);
            if raw.big_endian {
                // The two parts of a complex number are separate numbers.
                let complex = matches!(dtype, Dtype::C64 | Dtype::C128);
                let part = if complex { size / 2 } else { size };
                into.chunks_exact_mut(part).for_each(<[u8]>::reverse);
            }
        }
        Ok(())
    })
}
