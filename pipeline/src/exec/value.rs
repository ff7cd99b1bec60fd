//! Elements between the stages of a pipeline, as cheap handles to tensors that are not yet written to their
//! slot. The spec has the structure of an element; a value has only the components, in order.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{Dtype, TensorSpec};
use smallvec::SmallVec;

use super::error::{ErrorKind, ExecError};
use super::strings::Strings;

/// The components of one element, in the order of its spec.
pub type Value = SmallVec<[Tensor; 1]>;

/// The dimensions of a tensor.
pub type Dims = SmallVec<[u64; 3]>;

/// A tensor between two stages: its type, its dimensions, and its data in one of several forms. Clones share
/// the data.
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: Dtype,
    dims: Dims,
    data: TensorData,
}

/// The form of a tensor's data. Items of fixed size are little-endian and in row-major order.
#[derive(Debug, Clone)]
pub enum TensorData {
    /// At most 16 bytes, stored in the value itself.
    Inline(Inline),
    /// Contiguous bytes of fixed-size items, or the bytes of a scalar string.
    Shared(Bytes),
    /// The items of a string tensor that is not a scalar.
    Strings(Strings),
    /// A stack that is not copied yet: tensors of one type and shape along a new leading dimension. The
    /// tensors are copied once, when the stack is written to its destination.
    Rows(Arc<[Tensor]>),
    /// Data that is not computed yet. The data is computed straight into its destination, and never consists
    /// of strings.
    Fill(Arc<dyn Fill>),
}

/// A computation that produces a tensor's data when the tensor is written.
pub trait Fill: Send + Sync + fmt::Debug {
    /// Writes the whole tensor. `destination` must have exactly the tensor's size.
    ///
    /// # Errors
    /// [`ExecError`] if the computation fails. The error names the operation and the record.
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError>;

    /// Returns the number of bytes that the computation holds until it has run.
    fn held_bytes(&self) -> usize;

    /// Returns whether the computation never fails, whatever the data is. A computation that never fails can
    /// be deferred past operations that would have left out a failed element.
    fn is_certain(&self) -> bool {
        false
    }
}

/// Up to 16 bytes stored in place: a scalar of any fixed-size type.
#[derive(Debug, Clone, Copy)]
pub struct Inline {
    bytes: [u8; 16],
    len: u8,
}

impl Inline {
    /// Copies `bytes`. Returns `None` if `bytes` has more than 16 bytes.
    pub fn new(bytes: &[u8]) -> Option<Inline> {
        let mut inline = Inline {
            bytes: [0; 16],
            len: u8::try_from(bytes.len()).ok()?,
        };
        inline.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(inline)
    }

    /// Returns the stored bytes.
    pub fn as_slice(&self) -> &[u8] {
        // The constructor ensures that `len` is at most 16.
        &self.bytes[..usize::from(self.len)]
    }
}

impl Tensor {
    /// Returns an `i64` scalar.
    pub fn i64(value: i64) -> Tensor {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        Tensor {
            dtype: Dtype::I64,
            dims: Dims::new(),
            data: TensorData::Inline(Inline { bytes, len: 8 }),
        }
    }

    /// Returns a vector of two `i64` numbers, which needs no memory apart from the tensor.
    pub fn pair([first, second]: [i64; 2]) -> Tensor {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        Tensor {
            dtype: Dtype::I64,
            dims: Dims::from_slice(&[2]),
            data: TensorData::Inline(Inline { bytes, len: 16 }),
        }
    }

    /// Returns a scalar string with the text `value`.
    pub fn string(value: impl Into<String>) -> Tensor {
        Tensor {
            dtype: Dtype::String,
            dims: Dims::new(),
            data: TensorData::Shared(value.into().into_bytes().into()),
        }
    }

    /// Returns a scalar byte string.
    #[inline]
    pub fn bytes(value: impl Into<Bytes>) -> Tensor {
        Tensor {
            dtype: Dtype::Bytes,
            dims: Dims::new(),
            data: TensorData::Shared(value.into()),
        }
    }

    /// Returns a tensor of fixed-size items from their little-endian bytes.
    ///
    /// # Errors
    /// A text that states the expected number of bytes, if `bytes` has another length.
    pub fn fixed(dtype: Dtype, dims: &[u64], bytes: impl Into<Bytes>) -> Result<Tensor, String> {
        let bytes = bytes.into();
        let expected =
            fixed_bytes(dtype, dims).ok_or_else(|| format!("{dtype}{dims:?} has no fixed size"))?;
        if bytes.len() != expected {
            return Err(format!(
                "expected {expected} bytes for {dtype}{dims:?}, found {}",
                bytes.len()
            ));
        }
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data: TensorData::Shared(bytes),
        })
    }

    /// Returns a tensor of strings or byte strings.
    ///
    /// # Errors
    /// A text that states the reason, if the number of items does not match `dims`, or if `dtype` has items
    /// of a fixed size.
    pub fn strings(dtype: Dtype, dims: &[u64], items: Vec<Bytes>) -> Result<Tensor, String> {
        Tensor::of_strings(dtype, dims, items.into())
    }

    /// Returns a tensor of strings or byte strings in any form.
    ///
    /// # Errors
    /// A text that states the reason, under the conditions of [`Tensor::strings`].
    pub fn of_strings(dtype: Dtype, dims: &[u64], items: Strings) -> Result<Tensor, String> {
        let expected = dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim));
        if dtype.item_bytes().is_some() || expected != Some(items.len() as u64) {
            return Err(format!(
                "expected as many strings as {dtype}{dims:?} has items, found {}",
                items.len()
            ));
        }
        // A scalar string always has this form, so that [`Tensor::contiguous`] can return its bytes.
        let data = match items.get(0) {
            Some(item) if dims.is_empty() => TensorData::Shared(item),
            Some(_) | None => TensorData::Strings(items),
        };
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data,
        })
    }

    /// Returns a tensor that is computed when it is written.
    ///
    /// # Errors
    /// A text that states the reason, if `dtype` and `dims` have no fixed size.
    pub fn deferred(dtype: Dtype, dims: &[u64], fill: Arc<dyn Fill>) -> Result<Tensor, String> {
        fixed_bytes(dtype, dims).ok_or_else(|| format!("{dtype}{dims:?} has no fixed size"))?;
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data: TensorData::Fill(fill),
        })
    }

    /// Stacks tensors of one type and shape along a new leading dimension, without copying.
    ///
    /// # Errors
    /// A text that states the reason, if `rows` is empty or if the rows differ in type or shape.
    pub fn stack(rows: Vec<Tensor>) -> Result<Tensor, String> {
        let first = rows
            .first()
            .ok_or_else(|| "expected at least one tensor to stack, found none".to_owned())?;
        let (dtype, row_dims) = (first.dtype, first.dims.clone());
        for (index, row) in rows.iter().enumerate() {
            if row.dtype != dtype || row.dims != row_dims {
                return Err(format!(
                    "expected row {index} to be {dtype}{row_dims:?} as row 0 is, found {}{:?}",
                    row.dtype,
                    row.dims.as_slice()
                ));
            }
        }
        let mut dims = Dims::with_capacity(row_dims.len() + 1);
        dims.push(rows.len() as u64);
        dims.extend_from_slice(&row_dims);
        if dtype.item_bytes().is_some() && fixed_bytes(dtype, &dims).is_none() {
            return Err(format!(
                "a stack {dtype}{:?} exceeds the address space",
                dims.as_slice()
            ));
        }
        Ok(Tensor {
            dtype,
            dims,
            data: TensorData::Rows(rows.into()),
        })
    }

    /// Returns the type of the tensor's items.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the dimensions of the tensor.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Returns the data of the tensor.
    pub fn data(&self) -> &TensorData {
        &self.data
    }

    /// Returns whether `spec` permits the tensor's type and dimensions.
    pub fn fits(&self, spec: &TensorSpec) -> bool {
        spec.accepts(self.dtype, &self.dims)
    }

    /// Returns the size of the items in bytes when they are written. For strings, the size excludes offsets.
    pub fn size_bytes(&self) -> usize {
        match (fixed_bytes(self.dtype, &self.dims), &self.data) {
            (Some(size), _) => size,
            (None, TensorData::Strings(items)) => items.size_bytes(),
            (None, _) => {
                let mut size = 0usize;
                self.for_each_string(&mut |item| size = size.saturating_add(item.len()));
                size
            }
        }
    }

    /// Returns the approximate number of bytes that the tensor keeps alive, for a byte budget.
    pub fn held_bytes(&self) -> usize {
        let data = match &self.data {
            TensorData::Inline(_) => 0,
            TensorData::Shared(bytes) => bytes.len(),
            TensorData::Strings(items) => items.held_bytes(),
            TensorData::Rows(rows) => rows.iter().map(Tensor::held_bytes).sum(),
            TensorData::Fill(fill) => fill.held_bytes(),
        };
        data + size_of::<Tensor>()
    }

    /// Returns whether writing the tensor never fails.
    pub(crate) fn is_certain(&self) -> bool {
        match &self.data {
            TensorData::Inline(_) | TensorData::Shared(_) | TensorData::Strings(_) => true,
            TensorData::Rows(rows) => rows.iter().all(Tensor::is_certain),
            TensorData::Fill(fill) => fill.is_certain(),
        }
    }

    /// Returns the value of an `i64` scalar, or `None` for any other tensor.
    pub fn as_i64(&self) -> Option<i64> {
        if self.dtype != Dtype::I64 || !self.dims.is_empty() {
            return None;
        }
        self.contiguous()?.try_into().ok().map(i64::from_le_bytes)
    }

    /// Returns the bytes if they are contiguous: the bytes of computed fixed-size items that are not a stack,
    /// or of a scalar string.
    pub fn contiguous(&self) -> Option<&[u8]> {
        match &self.data {
            TensorData::Inline(inline) => Some(inline.as_slice()),
            TensorData::Shared(bytes) => Some(bytes),
            TensorData::Strings(_) | TensorData::Rows(_) | TensorData::Fill(_) => None,
        }
    }

    /// Writes fixed-size items to `destination`, which must have exactly [`Tensor::size_bytes`] bytes.
    ///
    /// # Errors
    /// The error of a deferred computation, or [`ErrorKind::Internal`] for strings or a wrong size.
    pub fn write_to(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        match &self.data {
            TensorData::Inline(inline) => copy(inline.as_slice(), destination),
            TensorData::Shared(bytes) => copy(bytes, destination),
            TensorData::Fill(fill) => fill.fill(destination),
            TensorData::Strings(_) => Err(internal("strings have no fixed size")),
            TensorData::Rows(rows) => {
                if destination.is_empty() {
                    return Ok(());
                }
                if rows.is_empty() || !destination.len().is_multiple_of(rows.len()) {
                    return Err(internal(
                        "the number of rows does not divide the length of the destination",
                    ));
                }
                let row_bytes = destination.len() / rows.len();
                for (row, into) in rows.iter().zip(destination.chunks_exact_mut(row_bytes)) {
                    row.write_to(into)?;
                }
                Ok(())
            }
        }
    }

    /// Calls `each` with every item of a string tensor, in row-major order. Does not call `each` for tensors
    /// of other types.
    pub fn for_each_string<'t>(&'t self, each: &mut dyn FnMut(&'t [u8])) {
        if self.dtype.item_bytes().is_some() {
            return;
        }
        match &self.data {
            TensorData::Shared(bytes) => each(bytes),
            TensorData::Strings(items) => items.iter().for_each(each),
            TensorData::Rows(rows) => rows.iter().for_each(|row| row.for_each_string(each)),
            TensorData::Inline(inline) => each(inline.as_slice()),
            TensorData::Fill(_) => {}
        }
    }

    /// Returns the tensor with computed and contiguous data. Writing the result cannot fail, and later stages
    /// share no deferred computation.
    ///
    /// # Errors
    /// The error of a deferred computation.
    pub fn settled(&self) -> Result<Tensor, ExecError> {
        let data = match (&self.data, self.dtype.item_bytes()) {
            (TensorData::Inline(_) | TensorData::Shared(_) | TensorData::Strings(_), _) => {
                return Ok(self.clone());
            }
            (TensorData::Rows(_) | TensorData::Fill(_), Some(_)) => {
                let mut bytes = vec![0; self.size_bytes()];
                self.write_to(&mut bytes)?;
                TensorData::Shared(bytes.into())
            }
            (TensorData::Rows(_) | TensorData::Fill(_), None) => {
                let mut items: Vec<Bytes> = Vec::new();
                self.for_each_string(&mut |item| items.push(Bytes::copy_from_slice(item)));
                TensorData::Strings(items.into())
            }
        };
        Ok(Tensor {
            dtype: self.dtype,
            dims: self.dims.clone(),
            data,
        })
    }

    /// Returns row `index` along the leading dimension, or `None` if the row does not exist or the data is
    /// deferred.
    pub fn row(&self, index: u64) -> Option<Tensor> {
        let (leading, rest) = self.dims.split_first()?;
        if index >= *leading {
            return None;
        }
        let at = usize::try_from(index).ok()?;
        let (dtype, dims) = (self.dtype, Dims::from_slice(rest));
        let slice = |all: usize| {
            let rows = usize::try_from(*leading).ok()?;
            let row = all / rows;
            Some(at * row..(at + 1) * row)
        };
        let data = match &self.data {
            TensorData::Rows(rows) => return rows.get(at).cloned(),
            TensorData::Fill(_) => return None,
            TensorData::Inline(inline) => TensorData::Inline(Inline::new(
                inline.as_slice().get(slice(inline.as_slice().len())?)?,
            )?),
            TensorData::Shared(bytes) => TensorData::Shared(bytes.slice(slice(bytes.len())?)),
            TensorData::Strings(items) if rest.is_empty() => TensorData::Shared(items.get(at)?),
            TensorData::Strings(items) => TensorData::Strings(items.slice(slice(items.len())?)?),
        };
        Some(Tensor { dtype, dims, data })
    }

    /// Returns a tensor of parts that are known to match, because they come from a checked tensor.
    pub(crate) fn from_parts(dtype: Dtype, dims: Dims, data: TensorData) -> Tensor {
        Tensor { dtype, dims, data }
    }
}

/// Returns the total bytes of fixed-size items, or `None` for strings and for sizes beyond the address space.
pub(crate) fn fixed_bytes(dtype: Dtype, dims: &[u64]) -> Option<usize> {
    let item = dtype.item_bytes()?;
    dims.iter()
        .try_fold(item, |size, dim| size.checked_mul(usize::try_from(*dim).ok()?))
}

fn copy(from: &[u8], to: &mut [u8]) -> Result<(), ExecError> {
    if from.len() != to.len() {
        return Err(internal("a tensor and its destination differ in size"));
    }
    to.copy_from_slice(from);
    Ok(())
}

fn internal(message: &str) -> ExecError {
    ExecError::new(ErrorKind::Internal, "write", message)
}
