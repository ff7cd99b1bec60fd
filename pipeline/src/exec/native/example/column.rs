//! The values of one feature in one or several examples, and their conversion to tensors.

use bytes::Bytes;
use millstream_element::Dtype;

use crate::exec::native::made;
use crate::exec::value::{Dims, Tensor, Value};
use crate::graph::{ConstantTensor, Feature, FeatureLayout};

/// Maximum bytes of padded values, and of the values of a shape. Without the limit, short examples could
/// request much memory.
const PADDED_BYTES_MAX: usize = 1 << 30;

/// The values of a feature, in the order of the examples.
#[derive(Debug)]
pub(crate) struct Column<'b> {
    feature: &'b Feature,
    /// The numbers, little-endian.
    fixed: Vec<u8>,
    items: Vec<&'b [u8]>,
    /// The number of values of each example.
    lengths: Vec<u64>,
}

impl<'b> Column<'b> {
    pub(crate) fn new(feature: &'b Feature, rows: usize) -> Column<'b> {
        Column {
            feature,
            fixed: Vec::new(),
            items: Vec::new(),
            lengths: Vec::with_capacity(rows),
        }
    }

    /// Returns the number of the field of a `Feature` that holds the values.
    pub(crate) fn kind(&self) -> u64 {
        let dtype = self.feature.dtype.0;
        if dtype == Dtype::F32 {
            2
        } else if dtype == Dtype::I64 {
            3
        } else {
            1
        }
    }

    /// Adds the little-endian bytes of numbers.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.fixed.extend_from_slice(bytes);
    }

    /// Adds a string.
    pub(crate) fn push_item(&mut self, item: &'b [u8]) -> Result<(), String> {
        if self.feature.dtype.0 == Dtype::String && std::str::from_utf8(item).is_err() {
            return Err("a string is not UTF-8: declare it as bytes".to_owned());
        }
        self.items.push(item);
        Ok(())
    }

    /// Ends the row of an example, which has `count` values. The values were added before.
    ///
    /// # Errors
    /// A text that states the expected number of values, if `count` is another number.
    pub(crate) fn end_row(&mut self, count: u64) -> Result<(), String> {
        let wanted = self.feature.values();
        match (&self.feature.layout, wanted) {
            (FeatureLayout::Fixed(dims, _), Some(wanted)) if wanted != count => {
                return Err(format!(
                    "expected {wanted} values for the shape {dims:?}, found {count}"
                ));
            }
            (FeatureLayout::Padded(dims, _), Some(wanted)) if !count.is_multiple_of(wanted) => {
                return Err(format!(
                    "the {count} values cannot be divided into tensors of the shape {dims:?}"
                ));
            }
            (_, _) => {}
        }
        self.lengths.push(count);
        Ok(())
    }

    /// Adds the row of an example without values.
    ///
    /// # Errors
    /// A text that states that the feature is missing, if it has no default.
    pub(crate) fn missing(&mut self) -> Result<(), String> {
        let FeatureLayout::Fixed(_, default) = &self.feature.layout else {
            self.lengths.push(0);
            return Ok(());
        };
        let default = default
            .as_ref()
            .ok_or_else(|| "the feature is missing, and has no default".to_owned())?;
        let count = self.feature.values().unwrap_or(0);
        self.fill(default, count)?;
        self.lengths.push(count);
        Ok(())
    }

    /// Adds `count` values of a default. The default has either `count` values, or one value that is
    /// repeated.
    fn fill(&mut self, default: &'b ConstantTensor, count: u64) -> Result<(), String> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let size = self.feature.dtype.0.item_bytes();
        within(count.saturating_mul(size.unwrap_or(size_of::<Bytes>())))?;
        match size {
            Some(size) if default.fixed.len() == size => self.fixed.extend(default.fixed.repeat(count)),
            Some(_) => self.fixed.extend_from_slice(&default.fixed),
            None => match default.items.as_slice() {
                [only] => self.items.extend(vec![only.as_slice(); count]),
                all => self.items.extend(all.iter().map(|item| item.as_slice())),
            },
        }
        Ok(())
    }

    /// Appends the components of the feature to `into`. If `batched`, the components have a row for every
    /// example. `record` is the record that contains the strings.
    pub(crate) fn finish(
        mut self,
        batched: bool,
        record: Option<&Bytes>,
        into: &mut Value,
    ) -> Result<(), String> {
        let rows = self.lengths.len() as u64;
        let leading = if batched {
            Dims::from_slice(&[rows])
        } else {
            Dims::new()
        };
        match &self.feature.layout {
            FeatureLayout::Fixed(dims, _) => {
                let dims = leading.iter().chain(dims).copied().collect();
                into.push(self.tensor(dims, record)?);
            }
            FeatureLayout::Ragged => {
                let lengths = std::mem::take(&mut self.lengths);
                into.push(self.tensor(total(&lengths), record)?);
                if batched {
                    into.push(splits(&lengths)?);
                }
            }
            FeatureLayout::Sparse => self.sparse(batched, record, into)?,
            FeatureLayout::Padded(..) => into.push(self.padded(leading, record)?),
        }
        Ok(())
    }

    fn tensor(self, dims: Dims, record: Option<&Bytes>) -> Result<Tensor, String> {
        let dtype = self.feature.dtype.0;
        if dtype.item_bytes().is_some() {
            return made::fixed(dtype, dims, self.fixed);
        }
        let items = self.items.into_iter().map(|item| shared(item, record));
        Tensor::strings(dtype, &dims, items.collect())
    }

    /// Appends the indices, the values and the shape of a sparse feature.
    fn sparse(mut self, batched: bool, record: Option<&Bytes>, into: &mut Value) -> Result<(), String> {
        let lengths = std::mem::take(&mut self.lengths);
        let mut indices = Vec::new();
        for (row, length) in lengths.iter().enumerate() {
            for place in 0..*length {
                if batched {
                    indices.extend((row as u64).to_le_bytes());
                }
                indices.extend(place.to_le_bytes());
            }
        }
        let rank = if batched { 2 } else { 1 };
        let count = total(&lengths)[0];
        into.push(made::fixed(
            Dtype::I64,
            Dims::from_slice(&[count, rank]),
            indices,
        )?);
        into.push(self.tensor(Dims::from_slice(&[count]), record)?);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut shape = Vec::new();
        if batched {
            shape.extend((lengths.len() as u64).to_le_bytes());
        }
        shape.extend(longest.to_le_bytes());
        into.push(made::fixed(Dtype::I64, Dims::from_slice(&[rank]), shape)?);
        Ok(())
    }

    /// Returns all examples, padded to the longest example.
    fn padded(mut self, leading: Dims, record: Option<&Bytes>) -> Result<Tensor, String> {
        let FeatureLayout::Padded(dims, default) = &self.feature.layout else {
            return Err("expected a padded feature".to_owned());
        };
        let per_tensor = self.feature.values().unwrap_or(1);
        let lengths = std::mem::take(&mut self.lengths);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let size = self.feature.dtype.0.item_bytes();
        let all = (longest as usize).saturating_mul(lengths.len());
        within(all.saturating_mul(size.unwrap_or(size_of::<Bytes>())))?;
        let mut padded = Column::new(self.feature, 0);
        let zero = match (size, default) {
            (_, Some(default)) => default.clone(),
            (Some(size), None) => ConstantTensor::fixed(vec![0; size]),
            (None, None) => ConstantTensor::items([""]),
        };
        let mut from = 0;
        for length in &lengths {
            let end = from + *length as usize;
            match size {
                Some(size) => {
                    padded.extend(&self.fixed[from * size..end * size]);
                    padded
                        .fixed
                        .extend(zero.fixed.repeat((longest - length) as usize));
                }
                None => {
                    padded.items.extend(&self.items[from..end]);
                    let empty: &'b [u8] = match default {
                        Some(default) => default.items.first().map_or(&[], |item| item.as_slice()),
                        None => &[],
                    };
                    padded.items.extend(vec![empty; (longest - length) as usize]);
                }
            }
            from = end;
        }
        let along = [longest / per_tensor.max(1)];
        let dims = leading.iter().chain(&along).chain(dims).copied().collect();
        padded.tensor(dims, record)
    }
}

/// Returns the total number of values, as the dimensions of a vector.
fn total(lengths: &[u64]) -> Dims {
    Dims::from_slice(&[lengths.iter().sum()])
}

/// Returns the row splits of a ragged tensor.
fn splits(lengths: &[u64]) -> Result<Tensor, String> {
    let mut end = 0u64;
    let mut bytes = Vec::with_capacity(8 * (lengths.len() + 1));
    bytes.extend(end.to_le_bytes());
    for length in lengths {
        end += length;
        bytes.extend(end.to_le_bytes());
    }
    made::fixed(Dtype::I64, Dims::from_slice(&[lengths.len() as u64 + 1]), bytes)
}

/// Returns the bytes of a string. If the string is at least half of the record, the result shares the
/// record's bytes. Any other string is copied, so that it does not keep the whole record alive.
fn shared(item: &[u8], record: Option<&Bytes>) -> Bytes {
    match record {
        Some(record) if item.len() >= record.len() / 2 && is_within(item, record) => record.slice_ref(item),
        Some(_) | None => Bytes::copy_from_slice(item),
    }
}

fn is_within(item: &[u8], record: &Bytes) -> bool {
    let (item, record) = (item.as_ptr_range(), record.as_ptr_range());
    record.start <= item.start && item.end <= record.end
}

fn within(bytes: usize) -> Result<(), String> {
    if bytes > PADDED_BYTES_MAX {
        return Err(format!(
            "the feature takes {bytes} bytes, the limit is {PADDED_BYTES_MAX}"
        ));
    }
    Ok(())
}
