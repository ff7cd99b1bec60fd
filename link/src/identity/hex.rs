//! Encodes and decodes bytes as hexadecimal text, for keys.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Encodes bytes as text, with two lower-case digits for each byte.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0x0f)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Decodes exactly `N` bytes from `2 * N` digits of either case. Returns `None` for any other text.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_texts_are_decoded() {
        let bytes = [0x00, 0x7f, 0xa5, 0xff];
        assert_eq!(encode(&bytes), "007fa5ff");
        assert_eq!(decode::<4>("007FA5ff"), Some(bytes));
        assert_eq!(decode::<4>("007fa5f"), None);
        assert_eq!(decode::<4>("007fa5fg"), None);
        assert_eq!(decode::<4>("+07fa5ff"), None);
    }
}
