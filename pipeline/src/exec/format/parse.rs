//! Conversion of text and of numbers to scalars, for formats that store values as text or in types of their
//! own.

use millstream_element::Dtype;

use crate::exec::value::{Dims, Inline, Tensor, TensorData};

/// Returns a scalar of fixed size from its little-endian bytes. There may be at most 16 bytes.
pub(crate) fn inline(dtype: Dtype, bytes: &[u8]) -> Result<Tensor, String> {
    match Inline::new(bytes) {
        Some(inline) if dtype.item_bytes() == Some(bytes.len()) => {
            Ok(Tensor::from_parts(dtype, Dims::new(), TensorData::Inline(inline)))
        }
        Some(_) | None => Err(format!(
            "expected the bytes of {dtype}, found {} bytes",
            bytes.len()
        )),
    }
}

/// Parses `text` as a scalar of `dtype`. White space around numbers is ignored.
pub(crate) fn scalar(dtype: Dtype, text: &[u8]) -> Result<Tensor, String> {
    if dtype == Dtype::Bytes {
        return Ok(Tensor::bytes(text.to_vec()));
    }
    let text = utf8(text)?;
    if dtype == Dtype::String {
        return Ok(Tensor::string(text));
    }
    let word = text.trim_ascii();
    let bytes = number(dtype, word).ok_or_else(|| format!("expected {dtype}, found {:?}", shown(word)))?;
    inline(dtype, &bytes)
}

/// Returns the scalar zero, `false` or an empty text.
#[cfg(feature = "sqlite")]
pub(crate) fn nothing(dtype: Dtype) -> Result<Tensor, String> {
    match dtype.item_bytes() {
        Some(bytes) => inline(dtype, &[0; 16][..bytes]),
        None => scalar(dtype, b""),
    }
}

/// Returns the bytes of an integer of `dtype`, if `dtype` is an integer type that can hold `value`.
pub(crate) fn integer(dtype: Dtype, value: i128) -> Option<Vec<u8>> {
    macro_rules! fitting {
        ($type:ty) => {
            <$type>::try_from(value)
                .ok()
                .map(|value| value.to_le_bytes().to_vec())
        };
    }
    match dtype {
        Dtype::I8 => fitting!(i8),
        Dtype::I16 => fitting!(i16),
        Dtype::I32 => fitting!(i32),
        Dtype::I64 => fitting!(i64),
        Dtype::U8 => fitting!(u8),
        Dtype::U16 => fitting!(u16),
        Dtype::U32 => fitting!(u32),
        Dtype::U64 => fitting!(u64),
        Dtype::Bool => match value {
            0 | 1 => Some(vec![value as u8]),
            _ => None,
        },
        Dtype::F32
        | Dtype::F64
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => None,
    }
}

fn number(dtype: Dtype, word: &str) -> Option<Vec<u8>> {
    if dtype == Dtype::F32 {
        word.parse().ok().map(|value: f32| value.to_le_bytes().to_vec())
    } else if dtype == Dtype::F64 {
        word.parse().ok().map(|value: f64| value.to_le_bytes().to_vec())
    } else if dtype == Dtype::Bool {
        match word {
            "0" | "false" | "False" | "FALSE" => Some(vec![0]),
            "1" | "true" | "True" | "TRUE" => Some(vec![1]),
            _ => None,
        }
    } else {
        integer(dtype, word.parse().ok()?)
    }
}

fn utf8(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text).map_err(|error| {
        format!(
            "{:?} is not UTF-8: {error}",
            shown(&text.escape_ascii().to_string())
        )
    })
}

/// Shortens a text for a message.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_where_types_have_them() {
        let read = |dtype, text: &str| scalar(dtype, text.as_bytes()).ok();
        let bytes =
            |tensor: Option<Tensor>| tensor.and_then(|tensor| tensor.contiguous().map(<[u8]>::to_vec));
        assert_eq!(bytes(read(Dtype::U8, " 255 ")), Some(vec![255]));
        assert!(read(Dtype::U8, "256").is_none());
        assert!(read(Dtype::U8, "-1").is_none());
        assert_eq!(bytes(read(Dtype::I8, "-128")), Some(vec![0x80]));
        assert!(read(Dtype::I64, "1.0").is_none());
        assert!(read(Dtype::I64, "").is_none());
        assert_eq!(
            bytes(read(Dtype::F32, "-1.5e0")),
            Some((-1.5f32).to_le_bytes().to_vec())
        );
        assert_eq!(bytes(read(Dtype::Bool, "True")), Some(vec![1]));
        assert!(read(Dtype::Bool, "2").is_none());
        assert_eq!(bytes(read(Dtype::String, " é")), Some(" é".as_bytes().to_vec()));
        assert!(scalar(Dtype::String, b"\xff").is_err());
    }
}
