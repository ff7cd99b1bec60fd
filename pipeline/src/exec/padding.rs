//! Padding of tensors of different shapes to one shape, and stacking of the padded tensors.

use bytes::Bytes;
use millstream_element::ElementSpec;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::value::{Tensor, Value, fixed_bytes};
use crate::graph::{self, own_shapes, padded_shapes};

use crate::exec::rows::joined;

/// The shapes and values to which components are padded.
pub(crate) struct Padding {
    /// The padded dimensions of each component. `None` pads a dimension to the longest of the stacked
    /// elements.
    shapes: Vec<Vec<Option<u64>>>,
    /// The padding value of each component, as the bytes of one item. An empty value stands for zeros or
    /// empty strings.
    values: Vec<Vec<u8>>,
}

impl Padding {
    pub(crate) fn new(batch: &graph::PaddedBatch, input: &ElementSpec) -> Result<Padding, ExecError> {
        let shapes = padded_shapes(batch, input).map_err(refused)?;
        let values = batch.values.iter().map(|value| value.to_vec()).collect();
        Ok(Padding { shapes, values })
    }

    /// Returns a padding that fills the unknown dimensions of elements of `input` with zeros. `longest` is
    /// the padded length, or `None` for the longest element.
    pub(crate) fn unknown(input: &ElementSpec, longest: Option<u64>) -> Result<Padding, ExecError> {
        let mut shapes = own_shapes(input).map_err(refused)?;
        for dim in shapes.iter_mut().flatten() {
            *dim = dim.or(longest);
        }
        Ok(Padding {
            shapes,
            values: Vec::new(),
        })
    }

    /// Pads `items` and stacks them into one element.
    pub(crate) fn stack(
        &self,
        op: &str,
        items: Vec<Item>,
        faults: &Faults,
    ) -> Result<Option<Item>, ExecError> {
        joined(op, items, faults, |index, rows| {
            let shape = self.shapes.get(index).map(Vec::as_slice).unwrap_or_default();
            let value = self.values.get(index).map(Vec::as_slice).unwrap_or_default();
            stacked(&rows, shape, value).map(|tensor| Value::from_buf([tensor]))
        })
    }
}

fn refused(reason: String) -> ExecError {
    ExecError::new(ErrorKind::Caller, "padded_batch", reason)
}

/// Pads `rows`, which have one dtype, to `shape` with `value`, and stacks them.
fn stacked(rows: &[Tensor], shape: &[Option<u64>], value: &[u8]) -> Result<Tensor, String> {
    let dtype = rows
        .first()
        .map(Tensor::dtype)
        .ok_or_else(|| "expected at least one element to stack, found none".to_owned())?;
    let dims = common_dims(rows, shape)?;
    let mut all = vec![rows.len() as u64];
    all.extend(&dims);
    let too_large = || format!("a padded batch {dtype}{all:?} exceeds the address space");
    let Some(item_bytes) = dtype.item_bytes() else {
        let items = all
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim));
        let items = items.and_then(|items| usize::try_from(items).ok());
        let mut padded = vec![Bytes::copy_from_slice(value); items.ok_or_else(too_large)?];
        let each = padded.len() / rows.len();
        for (row, place) in rows.iter().enumerate().map(|(at, row)| (row, at * each)) {
            let mut strings = Vec::new();
            row.for_each_string(&mut |item| strings.push(Bytes::copy_from_slice(item)));
            for_each_run(row.dims(), &dims, &mut |from, to, length| {
                padded[place + to..place + to + length].clone_from_slice(&strings[from..from + length]);
            });
        }
        return Tensor::strings(dtype, &all, padded);
    };
    let mut padded = vec![0; fixed_bytes(dtype, &all).ok_or_else(too_large)?];
    if value.iter().any(|byte| *byte != 0) {
        padded
            .chunks_exact_mut(item_bytes)
            .for_each(|item| item.copy_from_slice(value));
    }
    let each = padded.len() / rows.len();
    for (index, row) in rows.iter().enumerate() {
        let data = row
            .contiguous()
            .ok_or_else(|| "a tensor is not computed yet".to_owned())?;
        for_each_run(row.dims(), &dims, &mut |from, to, length| {
            let to = index * each + to * item_bytes;
            let bytes = length * item_bytes;
            padded[to..to + bytes].copy_from_slice(&data[from * item_bytes..from * item_bytes + bytes]);
        });
    }
    Tensor::fixed(dtype, &all, padded)
}

/// Returns the dimensions to which every row is padded.
fn common_dims(rows: &[Tensor], shape: &[Option<u64>]) -> Result<Vec<u64>, String> {
    let mut dims: Vec<u64> = shape.iter().map(|dim| dim.unwrap_or(0)).collect();
    for row in rows {
        let misfit = || {
            let wanted: Vec<String> = shape
                .iter()
                .map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string()))
                .collect();
            format!(
                "a tensor {}{:?} cannot be padded to [{}]",
                row.dtype(),
                row.dims(),
                wanted.join(",")
            )
        };
        if row.dims().len() != shape.len() {
            return Err(misfit());
        }
        for ((dim, own), wanted) in dims.iter_mut().zip(row.dims()).zip(shape) {
            match wanted {
                Some(wanted) if own > wanted => return Err(misfit()),
                Some(_) => {}
                None => *dim = (*dim).max(*own),
            }
        }
    }
    Ok(dims)
}

/// Calls `copy` for each contiguous run of items: with the run's places in tensors of dimensions `from` and
/// `to`, and with its length. No dimension of `to` may be smaller than in `from`.
fn for_each_run(from: &[u64], to: &[u64], copy: &mut dyn FnMut(usize, usize, usize)) {
    fn runs(from: &[u64], to: &[u64], at: (usize, usize), copy: &mut dyn FnMut(usize, usize, usize)) {
        // The product fits in a `usize`, because the items exist in memory.
        let count = |dims: &[u64]| dims.iter().product::<u64>() as usize;
        match from {
            [] => copy(at.0, at.1, 1),
            [last] => copy(at.0, at.1, *last as usize),
            [first, inner_from @ ..] => {
                let inner_to = &to[1..];
                let (step_from, step_to) = (count(inner_from), count(inner_to));
                for row in 0..*first as usize {
                    let at = (at.0 + row * step_from, at.1 + row * step_to);
                    runs(inner_from, inner_to, at, copy);
                }
            }
        }
    }
    if from.iter().all(|dim| *dim > 0) {
        runs(from, to, (0, 0), copy);
    }
}
