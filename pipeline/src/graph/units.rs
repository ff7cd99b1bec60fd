//! How a source is dealt out: in ranges of positions, by files, or not at all.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

/// Advice for a source that cannot be divided.
pub(crate) const WITHOUT_SPLITS: &str =
    "use the sharding policy `off`, under which every worker reads all of it";

/// How a source is dealt out.
#[derive(Debug, Clone, PartialEq)]
pub enum Splitting {
    /// In ranges of positions.
    Counted(Units),
    /// One file a split, or a part of one where the reader can; which files there are is found out when an
    /// iteration is planned.
    Listed,
    /// The source cannot be divided, for this reason.
    Whole(String),
}

/// Positions dealt out in ranges of a fixed size: a pure function of their number, so that every worker and
/// the dispatcher agree without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    positions: u64,
    unit: u64,
}

/// Splits a source is cut into, where it has as many positions: enough to balance workers, and few enough
/// that one element made of all of them can name them in its header.
const SPLITS_WANTED: u64 = 1024;
/// Positions a split has at most, which bounds what one lost split costs.
pub const SPLIT_SIZE_MAX: u64 = 4096;

impl Units {
    /// The units of a source of so many positions: `positions / 1024` positions each, rounded up, but at most
    /// 4096.
    pub fn of(positions: u64) -> Units {
        Units::sized(positions, positions.div_ceil(SPLITS_WANTED))
    }

    /// Units of `unit` positions each, 1 to [`SPLIT_SIZE_MAX`], the last perhaps of fewer.
    pub fn sized(positions: u64, unit: u64) -> Units {
        let unit = unit.clamp(1, SPLIT_SIZE_MAX);
        Units { positions, unit }
    }

    /// Positions of the source.
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// Returns how many splits there are.
    pub fn splits(&self) -> u64 {
        self.positions.div_ceil(self.unit)
    }

    /// The positions of split `index`. `None` if there is no such split.
    pub fn range(&self, index: u64) -> Option<Range<u64>> {
        let start = index
            .checked_mul(self.unit)
            .filter(|start| *start < self.positions)?;
        Some(start..start.saturating_add(self.unit).min(self.positions))
    }
}
