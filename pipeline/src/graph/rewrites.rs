//! The rewrites that options allow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// Rewrites to apply before execution; none of them ever changes an element. All are on by default; switching
/// one off shows its effect.
///
/// `tf.data`'s `Options.experimental_optimization` has more: those that change what a seed draws, or that
/// only help where operations are dispatched one by one, are not here. Its `map_and_batch_fusion` is what
/// `batch` always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Rewrites {
    /// All that nothing below says otherwise of (`apply_default_optimizations`).
    #[n(0)]
    pub all: Option<bool>,
    /// Whether operations that do nothing are removed (`noop_elimination`): `take` without end, `skip(0)`,
    /// `repeat(1)`, the only shard, a shuffle of one element.
    #[n(1)]
    pub noops: Option<bool>,
    /// Whether a `take` of a `take` is one, and a `skip` of a `skip`.
    #[n(2)]
    pub counts: Option<bool>,
    /// Whether a `prefetch` of a `prefetch` is one.
    #[n(3)]
    pub prefetches: Option<bool>,
    /// Whether neighbouring maps with one schedule are executed as one step (`map_fusion`).
    #[n(4)]
    pub map_fusion: Option<bool>,
    /// Whether columns of Parquet files that nobody looks at are left unread.
    #[n(5)]
    pub projections: Option<bool>,
    /// Whether casts move behind what chooses elements or cuts pictures.
    #[n(6)]
    pub casts: Option<bool>,
}

impl Rewrites {
    /// No change at all.
    pub const OFF: Rewrites = Rewrites {
        all: Some(false),
        noops: None,
        counts: None,
        prefetches: None,
        map_fusion: None,
        projections: None,
        casts: None,
    };

    pub(crate) fn removes_noops(&self) -> bool {
        self.is_on(self.noops)
    }

    pub(crate) fn merges_counts(&self) -> bool {
        self.is_on(self.counts)
    }

    pub(crate) fn merges_prefetches(&self) -> bool {
        self.is_on(self.prefetches)
    }

    pub(crate) fn pushes_projections(&self) -> bool {
        self.is_on(self.projections)
    }

    pub(crate) fn delays_casts(&self) -> bool {
        self.is_on(self.casts)
    }

    pub(crate) fn fuses_maps(&self) -> bool {
        self.is_on(self.map_fusion)
    }

    fn is_on(&self, rule: Option<bool>) -> bool {
        rule.or(self.all).unwrap_or(true)
    }
}
