//! The reader of one pass of an exactly-once job: elements in their fixed or any order, each of them once.
//!
//! Owns the reader of the job and its early elements. The order of elements is [`Sequence`]'s, and workers
//! decide nothing about it.

use std::time::Instant;

use millstream_client::{Notice, Notices, ReadError, Reader, ReaderConfig};
use millstream_control::QuarantinedElement;
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::FailedElement;
use millstream_element::Element;
use millstream_pipeline::exec::{COMPONENTS_ADDED, SplitNumbers};
use millstream_trace::{Part, SplitTrace, TraceId};
use thiserror::Error;

use super::place::Place;
use super::sequence::{Numbered, Sequence, SequenceError};
use crate::request::ReadRequest;
use crate::service::{Service, ServiceError};

/// The number of early elements, and their bytes, that a reader stores without counting them as outstanding.
/// Faster workers wait only when both are exceeded, so that all workers can work on splits at the same time.
const WINDOW: usize = 16;
const WINDOW_BYTES: usize = 64 << 20;
/// The maximum number of early elements that are not counted, however small they are.
const WINDOW_MAX: usize = 1 << 14;

/// The reader of one pass of one trainer.
#[derive(Debug)]
pub struct ExactReader {
    reader: Reader,
    /// The digest of the files that the job reads, if its source has files.
    files: Option<u64>,
    /// The elements that the workers of the job leave out.
    quarantined: Vec<QuarantinedElement>,
    sequence: Sequence<Early>,
    /// The number of elements that wait in `sequence`, and their bytes.
    waiting: usize,
    waiting_bytes: usize,
    has_ended: bool,
    /// The split of the element that was returned last, and the element's position in it.
    latest: (u64, u64),
    /// The trace of the latest waiting element of a sampled split.
    latest_traced: Option<TraceId>,
    notices: Notices,
}

/// An element that waits until it is due, and the task that still counts it as outstanding.
#[derive(Debug)]
struct Early {
    element: Element,
    /// The split of the element, and its position among the elements of the split.
    numbers: (u64, u64),
    bytes: usize,
    kept: Option<TaskId>,
    /// The trace of the split, and the time when the element arrived, for the first element of a sampled
    /// split that waits.
    traced: Option<(SplitTrace, Instant)>,
}

/// The reason why a pass has no next element.
#[derive(Debug, Error)]
pub enum ExactReadError {
    /// The reader of the job failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A worker sent elements that do not belong to the job.
    #[error("a worker broke the order of an exactly-once job: {0}")]
    Misbehaved(String),
}

impl ExactReadError {
    /// Returns the element at which an operation failed, if another job can leave the element out. A new
    /// reader with other [`QuarantineTerms`](super::QuarantineTerms) continues at [`ExactReader::place`].
    pub fn failed_element(&self) -> Option<FailedElement> {
        match self {
            ExactReadError::Read(ReadError::Task { failure, .. }) => failure.element.as_deref().copied(),
            ExactReadError::Read(_) | ExactReadError::Misbehaved(_) => None,
        }
    }
}

impl From<SequenceError> for ExactReadError {
    fn from(error: SequenceError) -> ExactReadError {
        ExactReadError::Misbehaved(error.to_string())
    }
}

impl ExactReader {
    /// The number of components that stand before the components of the dataset in each element. They contain
    /// the [`SplitNumbers`].
    pub const FIRST_COMPONENT: usize = COMPONENTS_ADDED;

    /// Opens one pass, numbered from 0, from the position in the request's terms on. The call creates a job
    /// for this pass, because every pass of every trainer has a job of its own.
    ///
    /// The dataset must have the form of
    /// [`Graph::for_exactly_once`](millstream_pipeline::graph::Graph::for_exactly_once), with the seed of the
    /// terms.
    ///
    /// # Errors
    /// The request has no terms of an exactly-once job, or the dispatcher refuses the job.
    pub fn open(
        service: &Service,
        request: &ReadRequest,
        pass: u64,
        config: &ReaderConfig,
    ) -> Result<ExactReader, ServiceError> {
        let Some(terms) = &request.exactly_once else {
            let advice = "the request has no terms of an exactly-once job: add ReadRequest::exactly_once";
            return Err(ServiceError::Definition(advice.to_owned()));
        };
        let sequence = match terms.any_order {
            true => Sequence::in_any_order(&terms.place, terms.trainer, terms.trainers),
            false => Sequence::new(&terms.place, terms.trainer, terms.trainers),
        };
        let config = ReaderConfig {
            is_exactly_once: true,
            ..config.clone()
        };
        let (reader, files) = service.read_with_files_digest(service.job(request)?, pass, &config)?;
        Ok(ExactReader {
            reader,
            files,
            quarantined: terms
                .quarantine
                .as_ref()
                .map_or_else(Vec::new, |terms| terms.elements.clone()),
            sequence,
            waiting: 0,
            waiting_bytes: 0,
            has_ended: false,
            latest: (0, 0),
            latest_traced: None,
            notices: Notices::new(config.on_notice.clone()),
        })
    }

    /// Returns the next element, or `None` at the end of the pass. The components of the dataset begin at
    /// [`ExactReader::FIRST_COMPONENT`]. Blocks until the element arrives.
    ///
    /// # Errors
    /// [`ExactReadError`] if the job failed, or if a worker broke the order. The reader must not be used
    /// afterwards.
    pub fn next_element(&mut self) -> Result<Option<Element>, ExactReadError> {
        // Elements that arrived early may be handed over by another trainer after the end of the lease.
        self.reader.wait_for_lease()?;
        loop {
            if self.waiting > 0
                && let Some(early) = self.sequence.next()
            {
                let Early {
                    element,
                    numbers,
                    bytes,
                    kept,
                    traced,
                } = early;
                if let Some((split, arrived)) = traced {
                    split.record(Part::Order, (arrived, Instant::now()), []);
                }
                self.latest = numbers;
                self.waiting -= 1;
                self.reader.note_buffered(self.waiting);
                self.waiting_bytes -= bytes;
                if let Some(task) = kept {
                    self.reader.let_go(task);
                }
                return Ok(Some(element));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.reader.next_element()? {
                Some(element) => {
                    let numbers = numbers(&element)?;
                    // No other due element waits, because the loop has returned them.
                    if self
                        .sequence
                        .hand_out_if_next(numbers.split, numbers.position, numbers.part)
                    {
                        self.latest = (numbers.split, numbers.position);
                        return Ok(Some(element));
                    }
                    self.accept(numbers, element)?;
                }
                None => {
                    self.sequence.end()?;
                    let repeated = self.sequence.repeated();
                    tracing::debug!(
                        repeated,
                        "the pass ended; repeated elements came from splits of lost workers"
                    );
                    self.has_ended = true;
                }
            }
        }
    }

    /// Returns the position after the elements that were returned. The field `place` of
    /// [`ExactTerms`](super::ExactTerms) continues there.
    pub fn place(&self) -> Place {
        self.sequence.place()
    }

    /// Returns the digest of the files that the job reads; `None` for a source without files. The field
    /// `files` of [`ExactTerms`](super::ExactTerms) belongs to a position among these files.
    pub fn files(&self) -> Option<u64> {
        self.files
    }

    /// Returns the numbers of the element that was returned last: its split, and its position among the
    /// elements of the split. The digest of the files, the quarantined elements, and the numbers of the
    /// position after the element follow.
    pub(crate) fn place_numbers(&self) -> impl Iterator<Item = u64> {
        let (split, position) = self.latest;
        let files = self.files.unwrap_or_default();
        // The split of the latest element may be finished. Its lineage depends on what the split left out.
        let quarantined = self.quarantined_from(self.sequence.due().min(split));
        let count = quarantined.clone().count() as u64;
        let elements = quarantined.flat_map(|element| [element.split, element.id]);
        [split, position, files, count]
            .into_iter()
            .chain(elements)
            .chain(self.sequence.place_numbers())
    }

    /// Returns the elements of unfinished splits that the workers leave out. They belong to the position,
    /// because they decide the numbers of later elements of their splits.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = QuarantinedElement> {
        self.quarantined_from(self.sequence.due())
    }

    fn quarantined_from(&self, first: u64) -> impl Iterator<Item = QuarantinedElement> + Clone {
        let elements = self.quarantined.iter().copied();
        elements.filter(move |element| element.split >= first)
    }

    /// Returns the reader of the job, for its measurements.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns whether further early elements count as outstanding.
    fn is_full(&self) -> bool {
        let has_many = self.waiting >= WINDOW && self.waiting_bytes >= WINDOW_BYTES;
        has_many || self.waiting >= WINDOW_MAX
    }

    fn accept(&mut self, numbers: SplitNumbers, element: Element) -> Result<(), ExactReadError> {
        let SplitNumbers {
            split,
            position,
            part,
        } = numbers;
        let is_due = self.sequence.is_due(split);
        // An element that is due leaves at once, so its bytes need not be counted.
        let bytes = match is_due {
            true => 0,
            false => element.components().map(|view| view.bytes().len()).sum(),
        };
        let kept = match !is_due && self.is_full() {
            true => self.reader.keep(),
            false => None,
        };
        let waiting = (!is_due).then(|| self.reader.trace_of(&element)).flatten();
        let traced = waiting.filter(|split| {
            let id = Some(split.id());
            std::mem::replace(&mut self.latest_traced, id) != id
        });
        let is_new = self.sequence.accept(Numbered {
            split,
            position,
            part,
            element: Early {
                element,
                numbers: (split, position),
                bytes,
                kept,
                traced: traced.map(|split| (split, Instant::now())),
            },
        })?;
        for split in self.sequence.take_skipped() {
            self.notices.tell(&Notice::SplitSkipped { split });
        }
        if is_new {
            self.waiting += 1;
            self.reader.note_buffered(self.waiting);
            self.waiting_bytes += bytes;
        } else if let Some(task) = kept {
            self.reader.let_go(task);
        }
        Ok(())
    }
}

/// Returns the numbers that the worker put before the element's components.
fn numbers(element: &Element) -> Result<SplitNumbers, ExactReadError> {
    let view = element.component(0);
    let numbers = view.and_then(|view| SplitNumbers::from_numbers(view.as_slice::<i64>().ok()?));
    numbers.ok_or_else(|| {
        ExactReadError::Misbehaved("expected the numbers of a split before the element".to_owned())
    })
}
