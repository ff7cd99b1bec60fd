//! The format of a cached block's file: a description of the block, its bytes, and a checksum over both.

use bytes::{Bytes, BytesMut};

/// The first bytes of every file.
const MAGIC: [u8; 8] = *b"MSCACHE1";
/// The number of bytes before the description: the magic, two lengths and the checksum.
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
/// The maximum number of bytes of a description. Names of objects have at most 1024 bytes, and escaping makes
/// them up to four times as long.
const DESCRIPTION_BYTES_MAX: usize = 1 << 16;

/// Returns the content of a file for the block `bytes` with the description `description`; `None` if the
/// description is too long.
pub(super) fn encode(description: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if description.len() > DESCRIPTION_BYTES_MAX {
        return None;
    }
    let mut file = Vec::with_capacity(HEADER_BYTES + description.len() + bytes.len());
    file.extend(MAGIC);
    file.extend((description.len() as u32).to_le_bytes());
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend(checksum(description.as_bytes(), bytes).to_le_bytes());
    file.extend(description.as_bytes());
    file.extend(bytes);
    Some(file)
}

/// Returns the maximum length of the file of a block of at most `bytes_max` bytes.
pub(super) fn size_max(bytes_max: u64) -> u64 {
    bytes_max.saturating_add((HEADER_BYTES + DESCRIPTION_BYTES_MAX) as u64)
}

/// Returns the block in the content `file` of a file; `None` if the content is damaged or has another
/// description.
pub(super) fn decode(description: &str, file: Vec<u8>) -> Option<Bytes> {
    let (header, rest) = file.split_at_checked(HEADER_BYTES)?;
    let length = u32::from_le_bytes(*header.get(8..)?.first_chunk()?) as usize;
    let size = u64::from_le_bytes(*header.get(12..)?.first_chunk()?);
    let stated = u32::from_le_bytes(*header.get(20..)?.first_chunk()?);
    let (said, bytes) = rest.split_at_checked(length)?;
    let is_whole = header.starts_with(&MAGIC)
        && said == description.as_bytes()
        && bytes.len() as u64 == size
        && checksum(said, bytes) == stated;
    is_whole.then(|| {
        let mut file = BytesMut::from(Bytes::from(file));
        file.split_off(HEADER_BYTES + length).freeze()
    })
}

fn checksum(description: &[u8], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(description), bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cached_blocks_return_undamaged(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            description in "[a-z ]{0,20}",
            at in any::<prop::sample::Index>(),
            flip in 1_u8..,
        ) {
            let file = encode(&description, &bytes).unwrap();
            prop_assert_eq!(decode(&description, file.clone()), Some(Bytes::from(bytes)));
            prop_assert_eq!(decode("another", file.clone()), None);
            let at = at.index(file.len());
            prop_assert_eq!(decode(&description, file[..at].to_vec()), None, "cut off");
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            prop_assert_eq!(decode(&description, damaged), None, "a byte differs");
            prop_assert_eq!(decode(&description, [file, vec![0]].concat()), None, "a byte too many");
        }
    }
}
