//! Splits that were lost with their worker, in the form that users see, and the setting for the reader's
//! behaviour after a loss.

use std::fmt;
use std::str::FromStr;

/// Maximum number of ranges that a message names. The message only counts the remaining ranges.
const NAMED_MAX: usize = 16;

/// A range of splits that will not be read again although some of their elements are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostSplits {
    /// The source of the splits. Sources are numbered depth first.
    pub source: u32,
    /// The number of the pass over the source.
    pub repetition: u64,
    /// The index of the first lost split.
    pub first: u64,
    /// The number of lost splits.
    pub count: u64,
}

/// The behaviour of a reader at the end of an iteration that lost splits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Returns [`ReadError::DataLost`](crate::ReadError::DataLost) in place of the end, after all elements
    /// that arrived.
    #[default]
    Raise,
    /// Reports the loss by [`ReaderConfig::on_notice`](crate::ReaderConfig::on_notice) or in the log, and
    /// ends the iteration.
    Warn,
    /// Ends the iteration as if no split were lost.
    /// [`ReaderStats::lost_splits`](crate::ReaderStats::lost_splits) still names the splits.
    Ignore,
}

impl OnLost {
    /// Returns the name of this variant in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Warn => "warn",
            Self::Ignore => "ignore",
        }
    }
}

impl FromStr for OnLost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Raise, Self::Warn, Self::Ignore];
        let found = all.into_iter().find(|on_lost| on_lost.name() == text);
        found.ok_or_else(|| format!("invalid on_lost {text:?}: expected \"raise\", \"warn\" or \"ignore\""))
    }
}

/// A range of splits that one worker lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// The lost splits.
    pub splits: LostSplits,
    /// The address of the worker that held the splits; empty if unknown.
    pub worker: String,
    /// The reason, as text for people.
    pub cause: String,
}

/// All splits that one iteration lost and that the dispatcher named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataLoss {
    /// The lost splits, each listed once. Sorted by worker and cause, then by source, pass and index.
    pub ranges: Vec<LostRange>,
}

impl DataLoss {
    /// Returns the number of lost splits.
    pub fn splits(&self) -> u64 {
        let counts = self.ranges.iter().map(|range| range.splits.count);
        counts.fold(0, u64::saturating_add)
    }
}

impl fmt::Display for DataLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let splits = self.splits();
        let (noun, verb) = if splits == 1 {
            ("split", "was")
        } else {
            ("splits", "were")
        };
        write!(
            f,
            "{splits} {noun} {verb} lost, and elements of the dataset are missing: "
        )?;
        for (index, range) in self.ranges.iter().take(NAMED_MAX).enumerate() {
            let LostSplits {
                source,
                repetition,
                first,
                count,
            } = range.splits;
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}source {source}, pass {repetition}, ")?;
            match count {
                1 => write!(f, "split {first}")?,
                _ => write!(f, "splits {first} to {}", first.saturating_add(count - 1))?,
            }
            if range.worker.is_empty() {
                write!(f, " ({})", range.cause)?;
            } else {
                write!(f, " (worker {}: {})", range.worker, range.cause)?;
            }
        }
        match self.ranges.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} further ranges"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_as_written() {
        for on_lost in [OnLost::Raise, OnLost::Warn, OnLost::Ignore] {
            assert_eq!(on_lost.name().parse(), Ok(on_lost));
        }
        assert!("fail".parse::<OnLost>().unwrap_err().contains("\"raise\""));
    }
}
