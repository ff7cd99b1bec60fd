//! The rewrites that options allow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The rewrites that are applied to a graph before execution. No rewrite changes any element. All rewrites
/// are on by default; switching one off shows its effect.
///
/// `tf.data`'s `Options.experimental_optimization` has more rewrites. Rewrites that change the draws of a
/// seed are missing here, and rewrites that only help an executor that dispatches single operations.
/// `map_and_batch_fusion` has no switch here because `batch` always works that way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Rewrites {
    /// The switch for all rewrites whose own switch is `None` (`apply_default_optimizations`).
    #[n(0)]
    pub all: Option<bool>,
    /// The switch for removing operations without effect (`noop_elimination`): `take` without end, `skip(0)`,
    /// `repeat(1)`, a shard of one, a shuffle of one element.
    #[n(1)]
    pub noops: Option<bool>,
    /// The switch for merging two `take` operations in a row into one, and two `skip` operations.
    #[n(2)]
    pub counts: Option<bool>,
    /// The switch for merging two `prefetch` operations in a row into one.
    #[n(3)]
    pub prefetches: Option<bool>,
    /// The switch for executing neighbouring maps with the same schedule as one step (`map_fusion`).
    #[n(4)]
    pub map_fusion: Option<bool>,
    /// The switch for skipping columns of Parquet files that no operation uses.
    #[n(5)]
    pub projections: Option<bool>,
    /// The switch for moving casts past operations that choose elements or crop pictures.
    #[n(6)]
    pub casts: Option<bool>,
}

impl Rewrites {
    /// The settings with all rewrites switched off.
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
