//! Functions that take runs of rows out of tensors, and join them. The caller decides which rows belong
//! together.

use std::ops::Range;

use bytes::Bytes;

use super::value::{Dims, Inline, Tensor, TensorData};

/// Returns the rows `rows` of a settled tensor, which share the tensor's data. Returns `None` if `rows` is
/// out of range.
pub(crate) fn taken(tensor: &Tensor, rows: Range<u64>) -> Option<Tensor> {
    let leading = *tensor.dims().first()?;
    if rows.start > rows.end || rows.end > leading {
        return None;
    }
    if rows == (0..leading) {
        return Some(tensor.clone());
    }
    let within = |all: usize| {
        let row = all / usize::try_from(leading).ok()?;
        Some(usize::try_from(rows.start).ok()? * row..usize::try_from(rows.end).ok()? * row)
    };
    let data = match tensor.data() {
        TensorData::Inline(inline) => {
            let bytes = inline.as_slice();
            TensorData::Inline(Inline::new(bytes.get(within(bytes.len())?)?)?)
        }
        TensorData::Shared(bytes) => TensorData::Shared(bytes.slice(within(bytes.len())?)),
        TensorData::Strings(items) => TensorData::Strings(items.slice(within(items.len())?)?),
        TensorData::Rows(_) | TensorData::Fill(_) => return None,
    };
    let mut dims = Dims::from_slice(tensor.dims());
    dims[0] = rows.end - rows.start;
    Some(Tensor::from_parts(tensor.dtype(), dims, data))
}

/// Joins the rows of settled tensors of one type and row shape, one tensor after the other.
///
/// # Errors
/// A text that states why the tensors cannot be joined: `parts` is empty, or the tensors differ.
pub(crate) fn joined(mut parts: Vec<Tensor>) -> Result<Tensor, String> {
    if parts.len() == 1 {
        return Ok(parts.swap_remove(0));
    }
    let Some(first) = parts.first() else {
        return Err("expected at least one tensor to join, found none".to_owned());
    };
    let mut dims = Dims::from_slice(first.dims());
    let Some((leading, row)) = dims.split_first_mut() else {
        return Err("a scalar has no rows".to_owned());
    };
    *leading = 0;
    for part in &parts {
        let (rows, rest) = part.dims().split_first().unwrap_or((&0, &[]));
        if part.dtype() != first.dtype() || rest != &*row {
            return Err(format!(
                "expected rows of {2}{row:?}, found rows of {0}{1:?}",
                part.dtype(),
                rest,
                first.dtype()
            ));
        }
        *leading = leading.saturating_add(*rows);
    }
    let data = if first.dtype().item_bytes().is_some() {
        let mut bytes = Vec::with_capacity(parts.iter().map(Tensor::size_bytes).sum());
        let contiguous = parts.iter().map(|part| part.contiguous().unwrap_or_default());
        contiguous.for_each(|part| bytes.extend_from_slice(part));
        TensorData::Shared(bytes.into())
    } else {
        let mut items: Vec<Bytes> = Vec::new();
        for part in &parts {
            match part.data() {
                TensorData::Strings(strings) => items.extend(strings.handles()),
                TensorData::Inline(_) | TensorData::Shared(_) | TensorData::Rows(_) | TensorData::Fill(_) => {
                    return Err("a string tensor has no separate rows".to_owned());
                }
            }
        }
        TensorData::Strings(items.into())
    };
    Ok(Tensor::from_parts(first.dtype(), dims.clone(), data))
}
