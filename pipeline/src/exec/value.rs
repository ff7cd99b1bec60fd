//! Elements between stages: cheap handles to tensors that are not yet where they will end up. Structure lives
//! in the spec; a value is only its components, in order.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{Dtype, TensorSpec};
use smallvec::SmallVec;

use super::error::{ErrorKind, ExecError};
use super::strings::Strings;

/// The components of one element, in the order of its spec.
pub type Value = SmallVec<[Tensor; 1]>;

/// Dimensions of a tensor.
pub type Dims = SmallVec<[u64; 3]>;

/// A tensor on its way: type, dimensions, and data in one of several forms. Clones share the data.
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: Dtype,
    dims: Dims,
    data: TensorData,
}

/// The forms of a tensor's data. Items of fixed size are little-endian and in row-major order.
#[derive(Debug, Clone)]
pub enum TensorData {
    /// At most 16 bytes, held in place.
    Inline(Inline),
    /// Contiguous bytes; of a scalar string, its bytes.
    Shared(Bytes),
    /// The items of a string tensor that is not a scalar.
    Strings(Strings),
    /// A stack not yet copied: tensors of one type and shape along a new leading dimension. The copy is made
    /// once, when the stack is written to where it stays.
    Rows(Arc<[Tensor]>),
    /// Not yet computed: written straight to where it stays. Never of strings.
    Fill(Arc<dyn Fill>),
}

/// Data that is computed when it is written.
pub trait Fill: Send + Sync + fmt::Debug {
    /// Writes the whole tensor. `destination` has exactly the tensor's size.
    ///
    /// # Errors
    /// [`ExecError`] naming the operation and the record.
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError>;

    /// Bytes held until then.
    fn held_bytes(&self) -> usize;

    /// Returns whether it never fails, whatever the data: then it can be left until it is known where it is
    /// written, be that behind operations that would have passed over a failure.
    fn is_certain(&self) -> bool {
        false
    }
}

/// Up to 16 bytes in place: a scalar of any fixed-size type.
#[derive(Debug, Clone, Copy)]
pub struct Inline {
    bytes: [u8; 16],
    len: u8,
}

impl Inline {
    /// Copies `bytes`; `None` beyond 16 of them.
    pub fn new(bytes: &[u8]) -> Option<Inline> {
        let mut inline = Inline {
            bytes: [0; 16],
            len: u8::try_from(bytes.len()).ok()?,
        };
        inline.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(inline)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // `len` is at most 16 by construction.
        &self.bytes[..usize::from(self.len)]
    }
}

impl Tensor {
    /// An `i64` scalar.
    pub fn i64(value: i64) -> Tensor {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        Tensor {
            dtype: Dtype::I64,
            dims: Dims::new(),
            data: TensorData::Inline(Inline { bytes, len: 8 }),
        }
    }

    /// A scalar string from its UTF-8 bytes.
    pub fn string(value: impl Into<String>) -> Tensor {
        Tensor {
            dtype: Dtype::String,
            dims: Dims::new(),
            data: TensorData::Shared(value.into().into_bytes().into()),
        }
    }

    /// A scalar byte string.
    #[inline]
    pub fn bytes(value: impl Into<Bytes>) -> Tensor {
        Tensor {
            dtype: Dtype::Bytes,
            dims: Dims::new(),
            data: TensorData::Shared(value.into()),
        }
    }

    /// A tensor of fixed-size items from their little-endian bytes.
    ///
    /// # Errors
    /// The reason, as text, when the bytes are not as many as the type and the dimensions say.
    pub fn fixed(dtype: Dtype, dims: &[u64], bytes: impl Into<Bytes>) -> Result<Tensor, String> {
        let bytes = bytes.into();
        let expected =
            fixed_bytes(dtype, dims).ok_or_else(|| format!("{dtype}{dims:?} has no fixed size"))?;
        if bytes.len() != expected {
            return Err(format!(
                "{} bytes for {dtype}{dims:?}, which has {expected}",
                bytes.len()
            ));
        }
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data: TensorData::Shared(bytes),
        })
    }

    /// A tensor of strings or byte strings.
    ///
    /// # Errors
    /// The reason, as text, when they are not as many as the dimensions say or `dtype` has items of a fixed
    /// size.
    pub fn strings(dtype: Dtype, dims: &[u64], items: Vec<Bytes>) -> Result<Tensor, String> {
        Tensor::of_strings(dtype, dims, items.into())
    }

    /// A tensor of strings or byte strings, in whatever form.
    ///
    /// # Errors
    /// As [`Tensor::strings`].
    pub fn of_strings(dtype: Dtype, dims: &[u64], items: Strings) -> Result<Tensor, String> {
        let expected = dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim));
        if dtype.item_bytes().is_some() || expected != Some(items.len() as u64) {
            return Err(format!("{} strings for {dtype}{dims:?}", items.len()));
        }
        // A scalar has one form, so that its bytes can be asked for.
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

    /// A tensor that is computed when it is written.
    ///
    /// # Errors
    /// The reason, as text, when `dtype` and `dims` have no fixed size.
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
    /// The reason, as text, when there are none or they differ.
    pub fn stack(rows: Vec<Tensor>) -> Result<Tensor, String> {
        let first = rows
            .first()
            .ok_or_else(|| "there is nothing to stack".to_owned())?;
        let (dtype, row_dims) = (first.dtype, first.dims.clone());
        for (index, row) in rows.iter().enumerate() {
            if row.dtype != dtype || row.dims != row_dims {
                return Err(format!(
                    "row {index} is {}{:?}, row 0 is {dtype}{row_dims:?}",
                    row.dtype,
                    row.dims.as_slice()
                ));
            }
        }
        let mut dims = Dims::with_capacity(row_dims.len() + 1);
        dims.push(rows.len() as u64);
        dims.extend_from_slice(&row_dims);
        if dtype.item_bytes().is_some() && fixed_bytes(dtype, &dims).is_none() {
            return Err(format!("a stack {dtype}{:?} is too large", dims.as_slice()));
        }
        Ok(Tensor {
            dtype,
            dims,
            data: TensorData::Rows(rows.into()),
        })
    }

    /// The type of its items.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// The data.
    pub fn data(&self) -> &TensorData {
        &self.data
    }

    /// Returns whether `spec` allows it.
    pub fn fits(&self, spec: &TensorSpec) -> bool {
        spec.accepts(self.dtype, &self.dims)
    }

    /// The size of its items, written down; of strings, their bytes without offsets.
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

    /// The memory it keeps alive, roughly: what a byte budget counts.
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

    /// Returns whether writing it never fails.
    pub(crate) fn is_certain(&self) -> bool {
        match &self.data {
            TensorData::Inline(_) | TensorData::Shared(_) | TensorData::Strings(_) => true,
            TensorData::Rows(rows) => rows.iter().all(Tensor::is_certain),
            TensorData::Fill(fill) => fill.is_certain(),
        }
    }

    /// The scalar as `i64`, when it is one.
    pub fn as_i64(&self) -> Option<i64> {
        if self.dtype != Dtype::I64 || !self.dims.is_empty() {
            return None;
        }
        self.contiguous()?.try_into().ok().map(i64::from_le_bytes)
    }

    /// The bytes, when they lie side by side: fixed-size items that are computed and not a stack, or a scalar
    /// string.
    pub fn contiguous(&self) -> Option<&[u8]> {
        match &self.data {
            TensorData::Inline(inline) => Some(inline.as_slice()),
            TensorData::Shared(bytes) => Some(bytes),
            TensorData::Strings(_) | TensorData::Rows(_) | TensorData::Fill(_) => None,
        }
    }

    /// Writes fixed-size items to `destination`, which has exactly [`Tensor::size_bytes`].
    ///
    /// # Errors
    /// What a deferred computation fails with; [`ErrorKind::Internal`] for strings or a wrong size.
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
                    return Err(internal("a stack does not divide its destination"));
                }
                let row_bytes = destination.len() / rows.len();
                for (row, into) in rows.iter().zip(destination.chunks_exact_mut(row_bytes)) {
                    row.write_to(into)?;
                }
                Ok(())
            }
        }
    }

    /// Calls `each` with every item of a string tensor, in row-major order. Of other tensors it calls
    /// nothing.
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

    /// The tensor with its data computed and contiguous, so that nothing is left to fail or to share with
    /// other stages.
    ///
    /// # Errors
    /// What a deferred computation fails with.
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

    /// Row `index` along the leading dimension. `None` if there is none, or the data is deferred.
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

    /// A tensor whose parts are known to agree, because they come from one that was checked.
    pub(crate) fn from_parts(dtype: Dtype, dims: Dims, data: TensorData) -> Tensor {
        Tensor { dtype, dims, data }
    }
}

/// The size of fixed-size items; `None` for strings or beyond the address space.
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
