//! The unit that a yardstick sends, and the memory that passes through one end.
//!
//! Ends use their buffers in turn, since memory that holds data is not the memory of the data before: one
//! buffer sent and filled again and again would stay in the core's own cache, and measure that.

/// Bytes that travel as one unit when elements are small, as the packs of the service do.
const UNIT_BYTES: u64 = 256 * 1024;

/// Bytes of an end's buffers together: what the service keeps in a task's buffer and outstanding.
const BUFFERS_BYTES: u64 = 8 << 20;

/// Buffers of an end at least: units on their way, and one more to fill.
const BUFFERS_MIN: u64 = 4;

/// Bytes of one unit of elements of this size: at least [`UNIT_BYTES`], whole elements.
pub(crate) fn unit_bytes(element_bytes: u64) -> u64 {
    element_bytes.max(UNIT_BYTES / element_bytes.max(1) * element_bytes)
}

/// The buffers of one end, each of one unit, every page of them its own.
pub(crate) fn buffers(element_bytes: u64) -> Vec<Vec<u8>> {
    let unit = unit_bytes(element_bytes);
    (0..(BUFFERS_BYTES / unit).max(BUFFERS_MIN))
        .map(|_| vec![7; unit as usize])
        .collect()
}
