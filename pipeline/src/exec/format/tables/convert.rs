//! Conversion of the columns of a batch to tensors. A tensor is a view of the batch's own buffers if the
//! buffers store the items as a tensor does.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "Arrow has more types than this module supports"
)]

use std::collections::BTreeSet;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_schema::DataType;
use bytes::Bytes;
use millstream_element::Dtype;

use crate::exec::format::parse::inline;
use crate::exec::strings::Strings;
use crate::exec::value::{Dims, Tensor, TensorData};

use super::shape::{Leaf, Shape};

/// A column of a batch, ready to be split into rows.
pub(crate) struct Column {
    lists: usize,
    dims: Vec<u64>,
    /// The items of all rows, one after the other.
    values: Tensor,
    /// The bounds of the lists of each level, as positions in the next level, with the outermost level first.
    splits: Vec<Vec<i64>>,
    /// Whether the column was read. The tensors of a column that was not read have no items.
    is_read: bool,
}

/// The tensors of a batch.
#[derive(Default)]
pub(crate) struct Converted {
    pub(crate) columns: Vec<Column>,
    /// The rows that contain a null, each with the first column that contains a null.
    pub(crate) null_rows: Vec<(usize, String)>,
}

impl Converted {
    /// Adds `array`, the column `name`, in the form that `shape` describes. A null becomes zero or an empty
    /// string. The row of a null is added to `null_rows`, unless `nulls` permits nulls.
    pub(crate) fn add(
        &mut self,
        name: &str,
        array: &ArrayRef,
        shape: &Shape,
        nulls: bool,
    ) -> Result<(), String> {
        match shape {
            Shape::Leaf(leaf) => {
                let mut rows = BTreeSet::new();
                self.columns.push(Column::of(array, leaf, &mut rows)?);
                if !nulls {
                    self.null_rows
                        .extend(rows.into_iter().map(|row| (row, name.to_owned())));
                }
                Ok(())
            }
            Shape::Struct(fields) => {
                let Some(array) = array.as_struct_opt() else {
                    return Err(format!(
                        "column {name:?}: expected a struct, found {}",
                        array.data_type()
                    ));
                };
                if !nulls {
                    let rows = (0..array.len()).filter(|row| array.is_null(*row));
                    self.null_rows.extend(rows.map(|row| (row, name.to_owned())));
                }
                for (place, (field, shape)) in fields.iter().enumerate() {
                    let column = array.columns().get(place);
                    let column = column.ok_or_else(|| format!("column {name:?} has no field {field:?}"))?;
                    self.add(&format!("{name}.{field}"), column, shape, nulls)?;
                }
                Ok(())
            }
        }
    }

    /// Adds tensors without items for a column that was not read, because no operation uses the column.
    pub(crate) fn leave_out(&mut self, shape: &Shape) -> Result<(), String> {
        match shape {
            Shape::Leaf(leaf) => self.columns.push(Column::left_out(leaf)?),
            Shape::Struct(fields) => {
                for (_, shape) in fields {
                    self.leave_out(shape)?;
                }
            }
        }
        Ok(())
    }
}

impl Column {
    fn of(array: &ArrayRef, leaf: &Leaf, null_rows: &mut BTreeSet<usize>) -> Result<Column, String> {
        let mut array = plain(array)?;
        let mut splits: Vec<Vec<i64>> = Vec::with_capacity(leaf.lists);
        for _ in 0..leaf.lists {
            note_nulls(&array, &splits, 1, null_rows);
            let (begins, items) = match array.data_type() {
                DataType::List(_) => {
                    let list = array.as_list::<i32>();
                    let offsets = list.value_offsets().iter().map(|offset| i64::from(*offset));
                    (offsets.collect::<Vec<_>>(), list.values())
                }
                DataType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    (list.value_offsets().to_vec(), list.values())
                }
                other => return Err(format!("expected a column of lists, found {other}")),
            };
            let (first, last) = (
                begins.first().copied().unwrap_or(0),
                begins.last().copied().unwrap_or(0),
            );
            let inner = items.slice(first as usize, (last - first) as usize);
            splits.push(begins.into_iter().map(|begin| begin - first).collect());
            array = plain(&inner)?;
        }
        let mut items = 1;
        for length in &leaf.dims {
            note_nulls(&array, &splits, items, null_rows);
            let Some(list) = array.as_fixed_size_list_opt() else {
                return Err(format!(
                    "expected a column of lists of {length} items, found {}",
                    array.data_type()
                ));
            };
            if u64::try_from(list.value_length()).ok() != Some(*length) {
                return Err(format!(
                    "expected lists of {length} items, found lists of {} items",
                    list.value_length()
                ));
            }
            let length = *length as usize;
            let inner = list.values().slice(list.offset() * length, list.len() * length);
            items *= length;
            array = plain(&inner)?;
        }
        note_nulls(&array, &splits, items, null_rows);
        let count = array.len().checked_div(items).unwrap_or(0) as u64;
        let mut dims = vec![count];
        dims.extend(&leaf.dims);
        Ok(Column {
            lists: leaf.lists,
            dims: leaf.dims.clone(),
            values: values(&array, leaf.dtype, &dims)?,
            splits,
            is_read: true,
        })
    }

    fn left_out(leaf: &Leaf) -> Result<Column, String> {
        let values = match leaf.dtype.item_bytes() {
            Some(_) => Tensor::fixed(leaf.dtype, &[0], Bytes::new())?,
            None => Tensor::strings(leaf.dtype, &[0], Vec::new())?,
        };
        Ok(Column {
            lists: leaf.lists,
            dims: Vec::new(),
            values,
            splits: vec![Vec::new(); leaf.lists],
            is_read: false,
        })
    }

    /// Appends the tensors of the whole batch.
    pub(crate) fn batch(self, into: &mut impl Extend<Tensor>) -> Result<(), String> {
        into.extend([self.values]);
        for splits in self.splits {
            into.extend([indices(&splits)?]);
        }
        Ok(())
    }

    /// Appends the tensors of one row.
    pub(crate) fn row(&self, row: usize, into: &mut impl Extend<Tensor>) -> Result<(), String> {
        if !self.is_read {
            into.extend([self.values.clone()]);
            for _ in 1..self.lists {
                into.extend([indices(&[])?]);
            }
            return Ok(());
        }
        if self.lists == 0 {
            let value = match (
                self.values.data(),
                self.dims.is_empty(),
                self.values.dtype().item_bytes(),
            ) {
                // A scalar is copied, so that it does not keep the whole batch alive.
                (TensorData::Shared(bytes), true, Some(size)) => {
                    let bytes = bytes.get(row * size..(row + 1) * size);
                    inline(self.values.dtype(), bytes.unwrap_or_default())?
                }
                (_, _, _) => self
                    .values
                    .row(row as u64)
                    .ok_or("a batch has fewer rows than it states")?,
            };
            into.extend([value]);
            return Ok(());
        }
        let mut range = row..row + 1;
        let mut below = Vec::new();
        for (level, splits) in self.splits.iter().enumerate() {
            if level > 0 {
                let own = splits.get(range.start..=range.end).unwrap_or_default();
                let first = own.first().copied().unwrap_or(0);
                let own: Vec<i64> = own.iter().map(|begin| begin - first).collect();
                below.push(indices(&own)?);
            }
            let at = |index: usize| splits.get(index).map_or(0, |begin| *begin as usize);
            range = at(range.start)..at(range.end);
        }
        into.extend([self.range(range)?]);
        into.extend(below);
        Ok(())
    }

    /// Returns the items `range` of the values, along their leading dimension.
    fn range(&self, range: Range<usize>) -> Result<Tensor, String> {
        let mut dims = Dims::from_slice(&[range.len() as u64]);
        dims.extend_from_slice(&self.dims);
        let items = self.dims.iter().product::<u64>() as usize;
        let of = |size: usize| range.start * items * size..range.end * items * size;
        let outside = "a list ends outside of its batch";
        if let Some(size) = self.values.dtype().item_bytes() {
            let TensorData::Shared(bytes) = self.values.data() else {
                return Err(outside.to_owned());
            };
            let wanted = of(size);
            if wanted.end > bytes.len() {
                return Err(outside.to_owned());
            }
            return Tensor::fixed(self.values.dtype(), &dims, bytes.slice(wanted));
        }
        let TensorData::Strings(strings) = self.values.data() else {
            return Err(outside.to_owned());
        };
        let strings = strings.slice(of(1)).ok_or(outside)?;
        Tensor::of_strings(self.values.dtype(), &dims, strings)
    }
}

fn indices(values: &[i64]) -> Result<Tensor, String> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::fixed(Dtype::I64, &[values.len() as u64], bytes)
}

/// Returns the array, or the decoded values of a dictionary array.
fn plain(array: &ArrayRef) -> Result<ArrayRef, String> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => arrow_select::take::take(dictionary.values(), dictionary.keys(), None)
            .map_err(|error| format!("a dictionary lacks a key: {error}")),
        None => Ok(ArrayRef::clone(array)),
    }
}

/// Adds the rows of the nulls in `array` to `rows`. `items` items of `array` form one item of the innermost
/// list.
fn note_nulls(array: &ArrayRef, splits: &[Vec<i64>], items: usize, rows: &mut BTreeSet<usize>) {
    if array.null_count() == 0 {
        return;
    }
    for index in (0..array.len()).filter(|index| array.is_null(*index)) {
        let innermost = index.checked_div(items).unwrap_or(0);
        rows.insert(splits.iter().rev().fold(innermost, |item, splits| {
            // The list of an item is the last list that begins at or before the item.
            splits
                .partition_point(|begin| *begin <= item as i64)
                .saturating_sub(1)
        }));
    }
}

/// Returns the items of an array without lists. Nulls become zero or empty strings.
fn values(array: &ArrayRef, dtype: Dtype, dims: &[u64]) -> Result<Tensor, String> {
    let mismatch = || {
        format!(
            "expected a column that can be read as {dtype}, found {}",
            array.data_type()
        )
    };
    match dtype {
        Dtype::String | Dtype::Bytes => {
            let items = texts(array).ok_or_else(mismatch)?;
            // The tensor has a leading dimension, so it is never a scalar.
            Tensor::of_strings(dtype, dims, items)
        }
        Dtype::Bool => {
            let bits = array.as_boolean_opt().ok_or_else(mismatch)?;
            let bytes: Vec<u8> = bits.iter().map(|bit| u8::from(bit.unwrap_or(false))).collect();
            Tensor::fixed(dtype, dims, bytes)
        }
        _ => {
            let data = array.to_data();
            let size = dtype.item_bytes().ok_or_else(mismatch)?;
            let buffer = data.buffers().first().ok_or_else(mismatch)?;
            if array.data_type().primitive_width() != Some(size) {
                return Err(mismatch());
            }
            let bytes = Bytes::from_owner(buffer.slice_with_length(data.offset() * size, data.len() * size));
            if array.null_count() == 0 {
                return Tensor::fixed(dtype, dims, bytes);
            }
            let mut bytes = bytes.to_vec();
            for index in (0..array.len()).filter(|index| array.is_null(*index)) {
                bytes[index * size..(index + 1) * size].fill(0);
            }
            Tensor::fixed(dtype, dims, bytes)
        }
    }
}

/// Returns the strings or byte strings of an array; nulls become empty. The result is a view of the array's
/// buffers if the array stores its strings side by side.
fn texts(array: &ArrayRef) -> Option<Strings> {
    let copied = |item: Option<&[u8]>| item.map(Bytes::copy_from_slice).unwrap_or_default();
    let items: Vec<Bytes> = match array.data_type() {
        DataType::Utf8 => return side_by_side(array.as_string::<i32>()),
        DataType::LargeUtf8 => return side_by_side(array.as_string::<i64>()),
        DataType::Binary => return side_by_side(array.as_binary::<i32>()),
        DataType::LargeBinary => return side_by_side(array.as_binary::<i64>()),
        DataType::Utf8View => {
            let texts = array.as_string_view().iter();
            texts.map(|item| copied(item.map(str::as_bytes))).collect()
        }
        DataType::BinaryView => array.as_binary_view().iter().map(copied).collect(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().map(copied).collect(),
        _ => return None,
    };
    Some(items.into())
}

fn side_by_side<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<Strings> {
    let bytes = Bytes::from_owner(array.values().clone());
    let begins = Bytes::from_owner(array.offsets().inner().inner().clone());
    let strings = Strings::packed(bytes, begins, size_of::<T::Offset>())?;
    if array.null_count() == 0 {
        return Some(strings);
    }
    let handles = strings.handles().enumerate();
    let items: Vec<Bytes> = handles
        .map(|(index, item)| if array.is_null(index) { Bytes::new() } else { item })
        .collect();
    Some(items.into())
}
