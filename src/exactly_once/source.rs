//! A pass of an exactly-once job as the source of a dataset in the trainer.
//!
//! Owns the reader of the pass and its kept elements. The order of elements is [`Sequence`]'s, and workers
//! decide nothing about it.

use std::sync::Arc;

use millstream_client::{Reader, ReaderConfig};
use millstream_dataplane::TaskId;
use millstream_element::Element;
use millstream_pipeline::exec::{COMPONENTS_ADDED, Cancel, CancelHook, ExecError, Source, SplitPart, Value};

use super::place::Place;
use super::sequence::{Numbered, Sequence};
use super::terms::ExactTerms;
use crate::request::ReadRequest;
use crate::service::Service;
use crate::service_values::{peer, unanswered, unread, value_from};

/// The number of early elements that a reader stores without counting them as outstanding. Faster workers
/// wait when more elements are early.
const WINDOW: usize = 16;

/// A pass that one trainer reads.
pub(crate) struct ExactSource {
    service: Arc<Service>,
    request: ReadRequest,
    terms: ExactTerms,
    config: ReaderConfig,
    pass: u64,
    cancel: Cancel,
    /// The position at which the pass begins.
    place: Place,
    open: Option<Open>,
}

/// The running job of a pass. Every pass has a job of its own, which no other trainer reads.
struct Open {
    reader: Reader,
    sequence: Sequence<Early>,
    /// The number of elements that wait in `sequence`.
    waiting: usize,
    has_ended: bool,
    /// The hook that wakes callers waiting for an element.
    _hook: CancelHook,
}

/// An element that waits until it is due, and the task that still counts it as outstanding.
struct Early {
    element: Element,
    kept: Option<TaskId>,
}

impl ExactSource {
    pub(crate) fn new(
        service: Arc<Service>,
        (request, terms): (ReadRequest, ExactTerms),
        config: ReaderConfig,
        pass: u64,
        cancel: Cancel,
    ) -> ExactSource {
        ExactSource {
            place: terms.place.clone(),
            service,
            request,
            terms,
            config,
            pass,
            cancel,
            open: None,
        }
    }

    fn opened(&mut self) -> Result<&mut Open, ExecError> {
        if self.open.is_none() {
            self.open = Some(self.begin()?);
        }
        self.open
            .as_mut()
            .ok_or_else(|| peer("the pass of the job is not open"))
    }

    fn begin(&self) -> Result<Open, ExecError> {
        let sequence = Sequence::new(&self.place, self.terms.trainer, self.terms.trainers);
        let mut request = self.request.clone();
        let terms = ExactTerms {
            place: self.place.clone(),
            ..self.terms.clone()
        };
        request.exactly_once = Some(terms);
        let job = self.service.job(&request).map_err(unanswered)?;
        let reader = self
            .service
            .read(job, self.pass, &self.config)
            .map_err(unanswered)?;
        let canceller = reader.canceller();
        Ok(Open {
            reader,
            sequence,
            waiting: 0,
            has_ended: false,
            _hook: self.cancel.on_cancel(move || canceller.cancel()),
        })
    }
}

impl Open {
    fn next(&mut self, is_numbered: bool) -> Result<Option<Value>, ExecError> {
        let first = if is_numbered { 0 } else { COMPONENTS_ADDED };
        loop {
            if let Some(Early { element, kept }) = self.sequence.next() {
                self.waiting -= 1;
                if let Some(task) = kept {
                    self.reader.let_go(task);
                }
                return value_from(&element, first).map(Some);
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.reader.next_element().map_err(unread)? {
                Some(element) => self.accept(element)?,
                None => {
                    self.sequence.end().map_err(peer)?;
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

    fn accept(&mut self, element: Element) -> Result<(), ExecError> {
        let numbered = numbers(&element)?;
        let is_due = numbered.split == self.sequence.due() && !self.sequence.has_next();
        let kept = match !is_due && self.waiting >= WINDOW {
            true => self.reader.keep(),
            false => None,
        };
        let is_new = self
            .sequence
            .accept(Numbered {
                split: numbered.split,
                position: numbered.position,
                part: numbered.part,
                element: Early { element, kept },
            })
            .map_err(peer)?;
        if is_new {
            self.waiting += 1;
        } else if let Some(task) = kept {
            self.reader.let_go(task);
        }
        Ok(())
    }
}

/// Returns the numbers that the worker put before the element's components.
fn numbers(element: &Element) -> Result<Numbered<()>, ExecError> {
    let number = |index: usize| {
        let view = element.component(index);
        let number = view.and_then(|view| view.as_slice::<i64>().ok()?.first().copied());
        number.ok_or_else(|| peer("expected the number of a split before the element"))
    };
    let natural = |index: usize| {
        let number = u64::try_from(number(index)?);
        number.map_err(|_| peer("expected a number of at least 0 before the element"))
    };
    let part = SplitPart::from_number(number(2)?);
    Ok(Numbered {
        split: natural(0)?,
        position: natural(1)?,
        part: part.ok_or_else(|| peer("expected the part of a split before the element"))?,
        element: (),
    })
}

impl Source for ExactSource {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let is_numbered = self.terms.numbered;
        self.opened()?.next(is_numbered)
    }

    fn position(&self) -> Option<Vec<u8>> {
        let place = match &self.open {
            Some(open) => open.sequence.place(),
            None => self.place.clone(),
        };
        Some(place.to_bytes())
    }

    fn continue_at(&mut self, position: &[u8]) -> Result<(), String> {
        let place = Place::from_bytes(position);
        self.place = place.ok_or("the bytes are no position in an exactly-once job")?;
        Ok(())
    }
}
