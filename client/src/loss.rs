//! Splits that were lost with their worker, as users see them, and the setting that says what a reader does
//! about them.

use std::fmt;
use std::str::FromStr;

/// Ranges that a message names; the rest are counted.
const NAMED_MAX: usize = 16;

/// Splits that will not be read again although elements of them are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostSplits {
    /// The source that they belong to, counted depth first.
    pub source: u32,
    /// The pass over it.
    pub repetition: u64,
    /// The index of the first.
    pub first: u64,
    /// Their number.
    pub count: u64,
}

/// The behaviour of a reader at the end of an iteration of which splits were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Returns [`ReadError::DataLost`](crate::ReadError::DataLost) in place of the end, after everything that
    /// arrived.
    #[default]
    Raise,
    /// Says so, by [`ReaderConfig::on_notice`](crate::ReaderConfig::on_notice) or in the log, and ends.
    Warn,
    /// Ends as if nothing were missing; [`ReaderStats::lost_splits`](crate::ReaderStats::lost_splits) still
    /// names them.
    Ignore,
}

impl OnLost {
    /// The word for it in settings.
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
        found.ok_or_else(|| format!("on_lost {text:?}: use \"raise\", \"warn\" or \"ignore\""))
    }
}

/// A run of lost splits of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// The splits.
    pub splits: LostSplits,
    /// The address of the worker that had them; empty if it is not known.
    pub worker: String,
    /// The reason, for people.
    pub cause: String,
}

/// Everything that one iteration lost, as far as the dispatcher named it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataLoss {
    /// The splits, each once: by worker and cause, then by source, pass and index.
    pub ranges: Vec<LostRange>,
}

impl DataLoss {
    /// Returns how many splits were lost.
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
