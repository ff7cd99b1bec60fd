//! Conversion of an array's bytes to tensors: numbers become little-endian, and texts lose their padding
//! zeros.

use std::io::{self, Read};

use bytes::Bytes;

use crate::exec::value::Tensor;

use super::header::{Header, ItemType};

/// Reads `wanted` bytes. Allocates memory only as far as bytes arrive.
pub(crate) fn read_bytes(stream: &mut impl Read, wanted: u64) -> io::Result<Vec<u8>> {
    // At most 1 MiB is allocated before the first byte is read.
    let mut bytes = Vec::with_capacity(wanted.min(1 << 20) as usize);
    let read = stream.take(wanted).read_to_end(&mut bytes)? as u64;
    if read < wanted {
        let reason = format!("{} bytes are missing", wanted - read);
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
    }
    Ok(bytes)
}

/// Returns the bytes of items in the byte order of tensors.
pub(crate) fn in_order(header: &Header, mut bytes: Vec<u8>) -> Bytes {
    let together = header.items.swapped_bytes();
    if header.is_big_endian && together > 1 {
        bytes.chunks_exact_mut(together).for_each(<[u8]>::reverse);
    }
    bytes.into()
}

/// Returns the tensor with the bytes `bytes`, which must be in the byte order of tensors.
pub(crate) fn tensor(header: &Header, dims: &[u64], bytes: Bytes) -> Result<Tensor, String> {
    if let ItemType::Fixed(dtype) = header.items {
        if dtype == millstream_element::Dtype::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err("expected a boolean of 0 or 1".to_owned());
        }
        return Tensor::fixed(dtype, dims, bytes);
    }
    let count = dims
        .iter()
        .try_fold(1u64, |product, dim| product.checked_mul(*dim));
    let count = count.ok_or_else(|| format!("a tensor of shape {dims:?} is too large"))?;
    // Strings without bytes take no space in the file, so their number is limited by the memory that their
    // handles need.
    const EMPTY_MAX: u64 = 1 << 24;
    let length = header.items.bytes() as usize;
    if length == 0 && count > EMPTY_MAX {
        return Err(format!("found {count} empty strings, the limit is {EMPTY_MAX}"));
    }
    let mut items = Vec::new();
    for index in 0..count as usize {
        let item = bytes.slice(index * length..(index + 1) * length);
        items.push(match header.items {
            ItemType::Text(_) => text(&item)?,
            ItemType::Fixed(_) | ItemType::Bytes(_) => {
                let end = item
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                item.slice(..end)
            }
        });
    }
    Tensor::strings(header.items.dtype(), dims, items)
}

fn text(item: &[u8]) -> Result<Bytes, String> {
    let codes = item
        .chunks_exact(4)
        .map(|code| u32::from_le_bytes([code[0], code[1], code[2], code[3]]));
    let codes: Vec<u32> = codes.collect();
    let end = codes
        .iter()
        .rposition(|code| *code != 0)
        .map_or(0, |last| last + 1);
    let text: Option<String> = codes[..end].iter().map(|code| char::from_u32(*code)).collect();
    text.map(|text| Bytes::from(text.into_bytes()))
        .ok_or_else(|| "a text has a code that is not a Unicode character".to_owned())
}
