//! The division of a source into splits: by ranges of positions, by files, or not at all.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

/// The advice in messages about a source that cannot be divided.
pub(crate) const WITHOUT_SPLITS: &str =
    "use the sharding policy `off`, under which every worker reads all of it";

/// The way in which a source is divided into splits.
#[derive(Debug, Clone, PartialEq)]
pub enum Splitting {
    /// Each split is a range of positions.
    Counted(Units),
    /// Each split is one file, or a part of one file if the reader can read parts. The files are listed when
    /// an iteration is planned.
    Listed,
    /// The source cannot be divided, for the reason given.
    Whole(String),
}

/// The division of a source into ranges of a fixed size. The ranges are a pure function of the number of
/// positions, so that the workers and the dispatcher agree without communicating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    positions: u64,
    unit: u64,
}

/// The number of splits into which a source with enough positions is divided. The number is large enough to
/// balance workers. An element made from all splits can still name every split in its header.
const SPLITS_WANTED: u64 = 1024;
/// The maximum number of positions in a split, which bounds the work that is lost with one split.
pub const SPLIT_SIZE_MAX: u64 = 4096;

impl Units {
    /// Divides a source of `positions` positions into splits of `positions / 1024` positions each, rounded
    /// up, but at most 4096.
    pub fn of(positions: u64) -> Units {
        Units::sized(positions, positions.div_ceil(SPLITS_WANTED))
    }

    /// Divides a source into splits of `unit` positions each, 1 to [`SPLIT_SIZE_MAX`]. The last split may
    /// have fewer positions.
    pub fn sized(positions: u64, unit: u64) -> Units {
        let unit = unit.clamp(1, SPLIT_SIZE_MAX);
        Units { positions, unit }
    }

    /// Returns the number of positions of the source.
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// Returns the number of positions of a split, except for a shorter last split.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the number of splits.
    pub fn splits(&self) -> u64 {
        self.positions.div_ceil(self.unit)
    }

    /// Returns the positions of split `index`; `None` if no split has this index.
    pub fn range(&self, index: u64) -> Option<Range<u64>> {
        let start = index
            .checked_mul(self.unit)
            .filter(|start| *start < self.positions)?;
        Some(start..start.saturating_add(self.unit).min(self.positions))
    }
}
