//! The latest events of the service, for operators. The list is bounded, and ends with the leadership of its
//! dispatcher.
//!
//! Events only inform: no decision of the dispatcher depends on them, and no record contains them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::moment::Moment;
use super::splits::Run;
use crate::id::JobId;

/// Maximum number of events that a dispatcher remembers.
pub const SERVICE_EVENTS_MAX: usize = 500;
/// Maximum bytes of an event's text. A longer text is cut off.
const TEXT_BYTES_MAX: usize = 1024;
/// Maximum number of ranges of splits that one event names.
const RANGES_MAX: usize = 8;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceEventKind {
    /// The dispatcher began to lead.
    Leading,
    /// A worker registered.
    WorkerRegistered,
    /// A worker was given up.
    WorkerGivenUp,
    /// A worker began to drain.
    WorkerDraining,
    /// A worker left the service.
    WorkerLeft,
    /// A job was created.
    JobCreated,
    /// An epoch began.
    EpochBegun,
    /// An epoch finished.
    EpochFinished,
    /// An epoch ended unfinished, because no trainer reads it.
    EpochGivenUp,
    /// An epoch could not begin or could not continue.
    EpochFailed,
    /// Splits were lost.
    SplitsLost,
    /// Splits that ended several workers are skipped.
    SplitsSkipped,
    /// A task failed.
    TaskFailed,
    /// A trainer that sent no heartbeat was given up.
    TrainerGivenUp,
    /// A process asked for the end of the service.
    ShutDown,
}

/// An event of the service, as operators read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEvent {
    /// The number of the event. Numbers begin with 1 when a dispatcher begins to lead.
    pub number: u64,
    /// The time of the event.
    pub at: Moment,
    /// The kind.
    pub kind: ServiceEventKind,
    /// The event in one or two sentences.
    pub text: String,
    /// The job that the event concerns.
    pub job: Option<JobId>,
}

/// The latest events, with the oldest first.
#[derive(Debug, Default)]
pub(super) struct ServiceEvents {
    latest: VecDeque<Arc<ServiceEvent>>,
    count: u64,
}

impl ServiceEventKind {
    /// Returns the name of the kind in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ServiceEventKind::Leading => "leading",
            ServiceEventKind::WorkerRegistered => "worker_registered",
            ServiceEventKind::WorkerGivenUp => "worker_given_up",
            ServiceEventKind::WorkerDraining => "worker_draining",
            ServiceEventKind::WorkerLeft => "worker_left",
            ServiceEventKind::JobCreated => "job_created",
            ServiceEventKind::EpochBegun => "epoch_begun",
            ServiceEventKind::EpochFinished => "epoch_finished",
            ServiceEventKind::EpochGivenUp => "epoch_given_up",
            ServiceEventKind::EpochFailed => "epoch_failed",
            ServiceEventKind::SplitsLost => "splits_lost",
            ServiceEventKind::SplitsSkipped => "splits_skipped",
            ServiceEventKind::TaskFailed => "task_failed",
            ServiceEventKind::TrainerGivenUp => "trainer_given_up",
            ServiceEventKind::ShutDown => "shut_down",
        }
    }

    /// Returns whether the event is a failure that an operator should read.
    pub fn is_fault(self) -> bool {
        match self {
            ServiceEventKind::WorkerGivenUp
            | ServiceEventKind::EpochFailed
            | ServiceEventKind::SplitsLost
            | ServiceEventKind::SplitsSkipped
            | ServiceEventKind::TaskFailed
            | ServiceEventKind::TrainerGivenUp => true,
            ServiceEventKind::Leading
            | ServiceEventKind::WorkerRegistered
            | ServiceEventKind::WorkerDraining
            | ServiceEventKind::WorkerLeft
            | ServiceEventKind::JobCreated
            | ServiceEventKind::EpochBegun
            | ServiceEventKind::EpochFinished
            | ServiceEventKind::EpochGivenUp
            | ServiceEventKind::ShutDown => false,
        }
    }
}

impl ServiceEvents {
    /// Adds an event, and forgets the oldest one if the list is full.
    pub(super) fn add(&mut self, at: Moment, kind: ServiceEventKind, job: Option<JobId>, mut text: String) {
        cut(&mut text);
        self.count += 1;
        if self.latest.len() == SERVICE_EVENTS_MAX {
            self.latest.pop_front();
        }
        let number = self.count;
        self.latest.push_back(Arc::new(ServiceEvent {
            number,
            at,
            kind,
            text,
            job,
        }));
    }

    /// Returns the events, with the oldest first.
    pub(super) fn all(&self) -> Vec<Arc<ServiceEvent>> {
        self.latest.iter().cloned().collect()
    }
}

/// Describes splits by their source, the pass over the source, and their numbers.
pub(super) fn described(runs: &[Run]) -> String {
    let ranges = runs.iter().take(RANGES_MAX).map(Run::splits);
    let named: Vec<String> = ranges
        .map(|range| {
            let last = range.first + range.count.saturating_sub(1);
            let splits = match range.count {
                1 => format!("split {}", range.first),
                _ => format!("splits {} to {last}", range.first),
            };
            format!("{splits} of source {} in pass {}", range.source, range.repetition)
        })
        .collect();
    let more = runs.len().saturating_sub(RANGES_MAX);
    match more {
        0 => named.join(", "),
        more => format!("{}, and {more} more ranges", named.join(", ")),
    }
}

/// Shortens a text that is too long, before a word if possible. A part of a URL may not be recognised as a
/// URL, and would then show its password.
fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        let end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_events_are_kept() {
        let mut events = ServiceEvents::default();
        for second in 0..2 * SERVICE_EVENTS_MAX as u64 {
            let text = "ä".repeat(TEXT_BYTES_MAX);
            events.add(
                Moment::from_secs(second),
                ServiceEventKind::WorkerRegistered,
                None,
                text,
            );
        }
        let all = events.all();
        assert_eq!(all.len(), SERVICE_EVENTS_MAX);
        let last = all.last().unwrap();
        assert_eq!(last.number, 2 * SERVICE_EVENTS_MAX as u64);
        assert_eq!(all[0].number, SERVICE_EVENTS_MAX as u64 + 1);
        assert_eq!(last.text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn long_texts_end_before_a_word() {
        let before = "x ".repeat(TEXT_BYTES_MAX / 2 - 5);
        let mut text = format!("{before}https://user:password@host/file");
        cut(&mut text);
        assert_eq!(text, before.trim_end());
        let mut short = "a b".to_owned();
        cut(&mut short);
        assert_eq!(short, "a b");
    }
}
