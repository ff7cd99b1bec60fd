//! Files whose checksums are corrected, so that the fuzzer reaches the code after the checksums.

/// Returns the input as a TFRecord file with correct checksums, as far as the stated lengths are valid.
pub(super) fn tfrecord(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(length) = bytes.get(at..at + 8) {
        let length = u64::from_le_bytes(length.try_into().unwrap());
        let code = masked(crc32c::crc32c(&bytes[at..at + 8]));
        write(&mut bytes, at + 8, code);
        let Some(end) = usize::try_from(length)
            .ok()
            .and_then(|length| (at + 12).checked_add(length))
        else {
            break;
        };
        let Some(record) = bytes.get(at + 12..end) else {
            break;
        };
        let code = masked(crc32c::crc32c(record));
        write(&mut bytes, end, code);
        at = end + 4;
    }
    bytes
}

/// Returns the input as a file of saved elements with correct checksums of its header and blocks, as
/// far as the stated lengths are valid.
pub(super) fn elements(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 8;
    let Some(length) = number(&bytes, at) else {
        return bytes;
    };
    let end = (at + 4).saturating_add(length);
    let Some(header) = bytes.get(at + 4..end) else {
        return bytes;
    };
    let code = crc32c::crc32c(header);
    write(&mut bytes, end, code);
    at = end + 4;
    while let Some(stored) = number(&bytes, at) {
        let begin = at + 20;
        let end = begin.saturating_add(stored).min(bytes.len());
        if let Some(block) = bytes.get(begin..end) {
            let code = crc32c::crc32c(block);
            write(&mut bytes, at + 12, code);
        }
        if let Some(head) = bytes.get(at..at + 16) {
            let code = crc32c::crc32c(head);
            write(&mut bytes, at + 16, code);
        }
        at = end;
        if end <= begin {
            break;
        }
    }
    bytes
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(number.try_into().unwrap()) as usize)
}

fn write(bytes: &mut [u8], at: usize, code: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&code.to_le_bytes());
    }
}

/// Returns a CRC-32C in the masked form of TFRecord.
fn masked(code: u32) -> u32 {
    code.rotate_right(15).wrapping_add(0xa282_ead8)
}
