//! The limits of a task's packs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The size at which a pack of small elements is complete, in bytes. Smaller packs cost more overhead for
/// packets, and larger packs exceed the cache. benches/README.md has the measurements.
pub(super) const PACK_BYTES: usize = 256 * 1024;

/// The limits of the packs that a producer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackLimits {
    /// The size at which a pack of small elements is complete, in bytes.
    pub(super) pack_bytes: usize,
    /// True if a pack may also gather a few larger elements, because only clients that do not copy keep
    /// packs.
    pub(super) may_be_large: bool,
    /// The number of bytes that the cross-trainer cache keeps, which is also the maximum size of an element.
    /// `None` without a cache.
    pub(super) cache_bytes: Option<u64>,
}
