//! The unit that a yardstick sends, and the buffers of one end.
//!
//! An end uses its buffers in turn, because fresh data is in fresh memory. A single buffer would stay in the
//! core's cache, and the yardstick would measure the cache.

/// The bytes of one unit of small elements. The service's packs have the same size.
const UNIT_BYTES: u64 = 256 * 1024;

/// The bytes of all buffers of an end together. A task's buffer and the outstanding elements of the service
/// have the same size.
const BUFFERS_BYTES: u64 = 8 << 20;

/// The minimum number of buffers of an end: the units in flight, and one more to fill.
const BUFFERS_MIN: u64 = 4;

/// Returns the bytes of one unit for elements of this size: at least [`UNIT_BYTES`], and a whole number of
/// elements.
pub(crate) fn unit_bytes(element_bytes: u64) -> u64 {
    element_bytes.max(UNIT_BYTES / element_bytes.max(1) * element_bytes)
}

/// Returns the buffers of one end. Each buffer holds one unit, in its own pages.
pub(crate) fn buffers(element_bytes: u64) -> Vec<Vec<u8>> {
    let unit = unit_bytes(element_bytes);
    (0..(BUFFERS_BYTES / unit).max(BUFFERS_MIN))
        .map(|_| vec![7; unit as usize])
        .collect()
}
