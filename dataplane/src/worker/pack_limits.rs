//! The limits of a task's packs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Bytes of a pack that gathers small elements. Figures in benches/README.md: smaller costs a packet's
/// overhead more often, larger leaves the cache.
pub(super) const PACK_BYTES: usize = 256 * 1024;

/// The limits of the packs that a producer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackLimits {
    /// Bytes of a pack that gathers small elements.
    pub(super) pack_bytes: usize,
    /// Whether a few larger elements may be gathered too: only clients keep packs, and they take them without
    /// a copy.
    pub(super) may_be_large: bool,
    /// Bytes that the cross-trainer cache keeps, which is also the limit of one element.
    pub(super) cache_bytes: Option<u64>,
}
