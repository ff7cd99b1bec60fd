//! The header of an array: a magic number, a version, a length, and a Python dict with type, order and shape.

use std::io::Read;

use millstream_element::{Dtype, TensorSpec};

use crate::exec::format::parse::shown;
use crate::exec::format::reader::Fault;

/// Maximum number of rows without bytes. Without the limit, an empty file could state any number of rows.
const EMPTY_ROWS_MAX: u64 = 1 << 24;

/// Maximum bytes of a header. NumPy itself reads at most 10 000 bytes by default.
const HEADER_BYTES_MAX: usize = 64 << 10;
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum number of dimensions of an array.
const RANK_MAX: usize = 16;

/// The header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) items: ItemType,
    pub(crate) is_big_endian: bool,
    pub(crate) shape: Vec<u64>,
    /// The number of bytes in front of the items.
    pub(crate) header_bytes: u64,
    /// The number of bytes of all items.
    pub(crate) data_bytes: u64,
}

/// The type of the items of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemType {
    /// A dtype of fixed size that tensors also have.
    Fixed(Dtype),
    /// Byte strings of at most this many bytes, padded with zeros.
    Bytes(u64),
    /// Texts of at most this many characters of four bytes each, padded with zeros.
    Text(u64),
}

impl ItemType {
    /// Returns the number of bytes of an item.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            // The conversion keeps the value: an item has at most 16 bytes.
            ItemType::Fixed(dtype) => dtype.item_bytes().unwrap_or(0) as u64,
            ItemType::Bytes(length) => length,
            ItemType::Text(length) => length.saturating_mul(4),
        }
    }

    pub(crate) fn dtype(self) -> Dtype {
        match self {
            ItemType::Fixed(dtype) => dtype,
            ItemType::Bytes(_) => Dtype::Bytes,
            ItemType::Text(_) => Dtype::String,
        }
    }

    /// Returns the number of bytes that form one number. The bytes of a number are reversed in the other byte
    /// order.
    pub(crate) fn swapped_bytes(self) -> usize {
        match self {
            ItemType::Fixed(Dtype::C64) => 4,
            ItemType::Fixed(Dtype::C128) => 8,
            ItemType::Fixed(dtype) => dtype.item_bytes().unwrap_or(1),
            ItemType::Bytes(_) => 1,
            ItemType::Text(_) => 4,
        }
    }
}

impl Header {
    /// Reads the header at the start of `file`.
    pub(crate) fn read(file: &mut impl Read) -> Result<Header, Fault> {
        let mut start = [0; 8];
        file.read_exact(&mut start)?;
        if start[..6] != *MAGIC {
            return Err(Fault::from(
                "expected NumPy's magic number at the start of the file",
            ));
        }
        let length = match start[6] {
            1 => {
                let mut length = [0; 2];
                file.read_exact(&mut length)?;
                u32::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0; 4];
                file.read_exact(&mut length)?;
                u32::from_le_bytes(length)
            }
            version => {
                return Err(Fault::from(format!(
                    "expected an array of version 1 to 3, found version {version}"
                )));
            }
        } as usize;
        if length > HEADER_BYTES_MAX {
            return Err(Fault::from(format!(
                "the header has {length} bytes, the limit is {HEADER_BYTES_MAX}"
            )));
        }
        let mut text = vec![0; length];
        file.read_exact(&mut text)?;
        let text = std::str::from_utf8(&text).map_err(|error| format!("the header is not UTF-8: {error}"))?;
        let before = if start[6] == 1 { 10 } else { 12 };
        Header::parse(text, before + length as u64).map_err(Fault::from)
    }

    fn parse(text: &str, header_bytes: u64) -> Result<Header, String> {
        let garbled = || format!("invalid header: {:?}", shown(text));
        let descr = value(text, "descr").ok_or_else(garbled)?;
        let order = value(text, "fortran_order").ok_or_else(garbled)?;
        let shape = value(text, "shape")
            .and_then(|shape| shape.strip_prefix('('))
            .ok_or_else(garbled)?;
        let inner = shape.split_once(')').ok_or_else(garbled)?.0;
        let dims = inner.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape: Vec<u64> = dims
            .map(|dim| dim.trim_end_matches('L').parse().map_err(|_| garbled()))
            .collect::<Result<_, _>>()?;
        let (items, is_big_endian) = item_type(descr)?;
        if order.starts_with("True") && shape.len() > 1 {
            return Err("the array is in Fortran order: save np.ascontiguousarray(array)".to_owned());
        }
        if shape.len() > RANK_MAX {
            return Err(format!(
                "the array has {} dimensions, the limit is {RANK_MAX}",
                shape.len()
            ));
        }
        let data_bytes = shape
            .iter()
            .try_fold(items.bytes(), |bytes, dim| bytes.checked_mul(*dim));
        Ok(Header {
            items,
            is_big_endian,
            header_bytes,
            data_bytes: data_bytes.ok_or_else(|| format!("an array of shape {shape:?} is too large"))?,
            shape,
        })
    }

    /// Returns the shape of an element: the shape of a row, or of the `whole` array.
    pub(crate) fn dims(&self, whole: bool) -> Result<&[u64], String> {
        match self.shape.split_first() {
            _ if whole => Ok(&self.shape),
            Some((rows, _)) if *rows > EMPTY_ROWS_MAX && self.data_bytes == 0 => Err(format!(
                "the array has {rows} rows without bytes, the limit is {EMPTY_ROWS_MAX}: read it whole"
            )),
            Some((_, rest)) => Ok(rest),
            None => Err("the array is a scalar, which has no rows: read it whole".to_owned()),
        }
    }

    /// Returns the spec of the elements; if an element is a `whole` array, its leading dimension varies.
    pub(crate) fn spec(&self, whole: bool) -> Result<TensorSpec, String> {
        let mut dims: Vec<Option<u64>> = self.dims(whole)?.iter().copied().map(Some).collect();
        if whole && let Some(leading) = dims.first_mut() {
            *leading = None;
        }
        Ok(TensorSpec::with_dims(self.items.dtype(), &dims))
    }
}

/// Returns the text after the key `key` in a Python dict that contains no dicts.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let after = quoted
        .iter()
        .find_map(|key| Some(text.split_once(key.as_str())?.1))?;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

/// Returns the item type that `descr` states, and whether the items are big-endian.
fn item_type(descr: &str) -> Result<(ItemType, bool), String> {
    let refused = |what: &str| Err(format!("unsupported array: found {what}"));
    if descr.starts_with('[') {
        return refused("records of several fields: save one array for each field");
    }
    let quote = descr.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
    let inner = quote.and_then(|quote| descr[1..].split_once(quote));
    let Some((code, _)) = inner.filter(|(code, _)| code.is_ascii() && code.len() >= 2) else {
        return Err("the header states no type".to_owned());
    };
    let (order, code) = match code.split_at(1) {
        (order @ ("<" | ">" | "|" | "="), code) => (order, code),
        (_, _) => ("=", code),
    };
    let length = code.get(1..).unwrap_or_default();
    let count = || {
        length
            .parse::<u32>()
            .map(u64::from)
            .map_err(|_| format!("the header states the invalid type {code:?}"))
    };
    let items = match code {
        "b1" | "?" => ItemType::Fixed(Dtype::Bool),
        "i1" => ItemType::Fixed(Dtype::I8),
        "i2" => ItemType::Fixed(Dtype::I16),
        "i4" => ItemType::Fixed(Dtype::I32),
        "i8" => ItemType::Fixed(Dtype::I64),
        "u1" => ItemType::Fixed(Dtype::U8),
        "u2" => ItemType::Fixed(Dtype::U16),
        "u4" => ItemType::Fixed(Dtype::U32),
        "u8" => ItemType::Fixed(Dtype::U64),
        "f2" => ItemType::Fixed(Dtype::F16),
        "f4" => ItemType::Fixed(Dtype::F32),
        "f8" => ItemType::Fixed(Dtype::F64),
        "c8" => ItemType::Fixed(Dtype::C64),
        "c16" => ItemType::Fixed(Dtype::C128),
        _ if code.starts_with('S') || code.starts_with('a') => ItemType::Bytes(count()?),
        _ if code.starts_with('U') => ItemType::Text(count()?),
        _ if code.starts_with('O') => {
            return refused(
                "pickled objects: unpickling runs code from the file, so save arrays of numbers or texts",
            );
        }
        _ if code.starts_with('M') || code.starts_with('m') => return refused("dates: save them as int64"),
        _ => return refused(&format!("items of type {code:?}")),
    };
    Ok((items, order == ">"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(descr: &str, shape: &str) -> Result<Header, String> {
        Header::parse(
            &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"),
            128,
        )
    }

    #[test]
    fn types_and_shapes_are_those_of_the_dict() {
        let header = parsed("'<f4'", "(3, 2)").unwrap();
        assert_eq!(
            (header.items, header.data_bytes),
            (ItemType::Fixed(Dtype::F32), 24)
        );
        assert_eq!(header.shape, [3, 2]);
        assert!(parsed("'>i8'", "(5,)").unwrap().is_big_endian);
        assert_eq!(parsed("'|b1'", "()").unwrap().shape, [0u64; 0]);
        assert_eq!(parsed("'<U7'", "(2,)").unwrap().data_bytes, 56);
    }

    #[test]
    fn rows_without_bytes_are_bounded() {
        for (descr, shape) in [
            ("'<f4'", "(1152921504606846976, 0)"),
            ("'|S0'", "(1152921504606846976,)"),
        ] {
            let header = parsed(descr, shape).unwrap();
            assert!(header.dims(false).unwrap_err().contains("rows without bytes"));
            assert_eq!(header.dims(true).unwrap()[0], 1 << 60);
        }
        assert_eq!(parsed("'<f4'", "(1000, 0)").unwrap().dims(false), Ok(&[0][..]));
    }

    #[test]
    fn what_no_tensor_is_is_refused() {
        for (descr, shape, reason) in [
            ("'|O'", "(3,)", "pickled"),
            ("[('a', '<i4')]", "(3,)", "several fields"),
            ("'<M8[ns]'", "(3,)", "dates"),
            ("'<f4'", "(18446744073709551615, 4)", "too large"),
            ("'<f4'", "(-1,)", "invalid header"),
            ("''", "(1,)", "no type"),
        ] {
            let refused = parsed(descr, shape).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
