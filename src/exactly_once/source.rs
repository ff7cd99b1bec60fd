//! A pass of an exactly-once job as the source of a dataset in the trainer, and the position after each
//! element as a component. Refuses to know the order of elements.

use std::sync::Arc;

use millstream_client::{Notice, Notices, ReadError, ReaderConfig};
use millstream_control::{ExactlyOnce, QuarantinedElement};
use millstream_element::{Dtype, Element, ElementSpec, SpecError, Structure, TensorSpec};
use millstream_pipeline::exec::{Cancel, CancelHook, ExecError, Source, Tensor, Value};

use super::place::Place;
use super::quarantine::{Decision, Quarantine};
use super::reader::{ExactReadError, ExactReader};
use super::terms::ExactTerms;
use crate::request::ReadRequest;
use crate::service::Service;
use crate::service_values::{peer, unanswered, unread, value_from};

/// A pass that one trainer reads.
pub(crate) struct ExactSource {
    service: Arc<Service>,
    request: ReadRequest,
    terms: ExactTerms,
    config: ReaderConfig,
    pass: u64,
    cancel: Cancel,
    /// The position at which the pass begins, and the digest of the files of this position.
    place: Place,
    files: Option<u64>,
    /// The failed elements, if the terms permit failures.
    quarantine: Option<Quarantine>,
    open: Option<Open>,
}

/// The running job of a pass. Every pass has a job of its own, which no other trainer reads.
struct Open {
    reader: ExactReader,
    /// The hook that wakes callers waiting for an element.
    _hook: CancelHook,
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
            files: terms.files,
            quarantine: terms
                .quarantine
                .clone()
                .map(|limits| Quarantine::new(limits, (terms.trainer, terms.trainers))),
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

    /// Returns the elements that the next job leaves out.
    fn quarantined(&self) -> &[QuarantinedElement] {
        self.quarantine.as_ref().map_or(&[], Quarantine::elements)
    }

    fn begin(&self) -> Result<Open, ExecError> {
        let mut request = self.request.clone();
        request.exactly_once = Some(ExactTerms {
            place: self.place.clone(),
            files: self.files,
            quarantine: self.quarantine.as_ref().map(Quarantine::terms).cloned(),
            ..self.terms.clone()
        });
        let reader = ExactReader::open(&self.service, &request, self.pass, &self.config);
        let reader = reader.map_err(unanswered)?;
        let canceller = reader.reader().canceller();
        Ok(Open {
            reader,
            _hook: self.cancel.on_cancel(move || canceller.cancel()),
        })
    }
}

impl ExactSource {
    /// Returns the next element. After a failure that does not end the pass, another job continues at the
    /// position of this trainer.
    fn next_element(&mut self) -> Result<Option<Element>, ExecError> {
        loop {
            match self.opened()?.reader.next_element() {
                Ok(element) => return Ok(element),
                Err(error) => self.recover(error)?,
            }
        }
    }

    /// Closes the job of a failed element, so that the next job computes the element again or leaves it out.
    /// Returns other failures.
    fn recover(&mut self, error: ExactReadError) -> Result<(), ExecError> {
        let (worker, mut failure) = match error {
            ExactReadError::Read(ReadError::Task { worker, failure }) => (worker, failure),
            error @ (ExactReadError::Read(_) | ExactReadError::Misbehaved(_)) => return Err(failed(error)),
        };
        let (Some(element), Some(quarantine), Some(open)) = (
            failure.element.as_deref().copied(),
            &mut self.quarantine,
            &self.open,
        ) else {
            return Err(unread(ReadError::Task { worker, failure }));
        };
        let place = open.reader.place();
        // A notice has no traceback, and the error that ends a pass has it.
        let reason = format!("worker {worker}: {}", failure.in_one_line());
        let notice = match quarantine.decide(&element, place.had_of(element.split)) {
            Decision::LeaveOutAgain => None,
            Decision::LeaveOut { quarantined } => Some(Notice::ElementQuarantined {
                split: element.split,
                failures: quarantine.terms().max_failures,
                quarantined,
                max_quarantined: quarantine.terms().max_elements.into(),
                reason,
            }),
            Decision::Retry { failures } => Some(Notice::ElementFailed {
                split: element.split,
                failures,
                max_failures: quarantine.terms().max_failures,
                reason,
            }),
            Decision::Fail(why) => {
                failure.message = format!("{}. {why}", failure.message.trim_end_matches('.'));
                return Err(unread(ReadError::Task { worker, failure }));
            }
        };
        (self.place, self.files) = (place, open.reader.files());
        self.open = None;
        if let Some(notice) = notice {
            Notices::new(self.config.on_notice.clone()).tell(&notice);
        }
        Ok(())
    }
}

impl Open {
    /// Returns the value of an element, after the position that follows the element if `is_placed`.
    fn value(&self, element: &Element, is_placed: bool) -> Result<Value, ExecError> {
        let value = value_from(element, ExactReader::FIRST_COMPONENT)?;
        if !is_placed {
            return Ok(value);
        }
        let place: Vec<u8> = self.reader.place_numbers().flat_map(u64::to_le_bytes).collect();
        let place = Tensor::fixed(Dtype::U8, &[place.len() as u64], place).map_err(peer)?;
        Ok(std::iter::once(place).chain(value).collect())
    }
}

/// Returns the spec of elements that arrive with the position after each of them: a tuple of the bytes of the
/// position and the element. Bytes keep their values in frameworks without 64-bit integers.
pub(crate) fn placed(spec: &ElementSpec) -> Result<ElementSpec, SpecError> {
    let place = ElementSpec::single(TensorSpec::with_dims(Dtype::U8, &[None]))?;
    let structures = [&place, spec].map(|spec| spec.structure().clone());
    let components = place.components().iter().chain(spec.components()).cloned();
    ElementSpec::new(Structure::Tuple(structures.into()), components.collect())
}

/// The number before the quarantined elements of a position. No split has this number.
const QUARANTINED: u64 = u64::MAX;

/// Returns the bytes of a position. The digest of its files follows, if the source has files. Quarantined
/// elements stand before the position.
fn position(place: &Place, files: Option<u64>, quarantined: &[QuarantinedElement]) -> Vec<u8> {
    let mut numbers = Vec::new();
    if !quarantined.is_empty() {
        numbers.extend([QUARANTINED, quarantined.len() as u64]);
        numbers.extend(quarantined.iter().flat_map(|element| [element.split, element.id]));
    }
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend(place.to_bytes());
    bytes.extend(files.map(u64::to_le_bytes).iter().flatten());
    bytes
}

/// The position of a trainer, with the digest of its files and its quarantined elements.
type Position = (Place, Option<u64>, Vec<QuarantinedElement>);

/// Returns the position from the bytes that [`position`] returned; `None` for other bytes.
fn positioned(bytes: &[u8]) -> Option<Position> {
    let number = |at: usize| {
        let word = bytes.get(8 * at..8 * at + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    if number(0) != Some(QUARANTINED) {
        let (place, files) = positioned_alone(bytes)?;
        return Some((place, files, Vec::new()));
    }
    let count = usize::try_from(number(1)?).ok()?;
    let count = (count <= ExactlyOnce::QUARANTINED_MAX).then_some(count)?;
    let element = |at: usize| {
        let (split, id) = (number(2 + 2 * at)?, number(3 + 2 * at)?);
        Some(QuarantinedElement { split, id })
    };
    let elements: Option<Vec<_>> = (0..count).map(element).collect();
    let (place, files) = positioned_alone(bytes.get(16 + 16 * count..)?)?;
    Some((place, files, elements?))
}

fn positioned_alone(bytes: &[u8]) -> Option<(Place, Option<u64>)> {
    // A position alone has an odd number of words.
    let is_alone = (bytes.len() / 8) % 2 == 1;
    let (place, files) = match bytes.split_last_chunk() {
        Some((place, files)) if !is_alone => (place, Some(u64::from_le_bytes(*files))),
        Some(_) | None => (bytes, None),
    };
    Some((Place::from_bytes(place)?, files))
}

fn failed(error: ExactReadError) -> ExecError {
    match error {
        ExactReadError::Read(error) => unread(error),
        ExactReadError::Misbehaved(_) => peer(error.to_string()),
    }
}

impl Source for ExactSource {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let is_placed = self.terms.placed;
        let Some(element) = self.next_element()? else {
            return Ok(None);
        };
        self.opened()?.value(&element, is_placed).map(Some)
    }

    fn position(&self) -> Option<Vec<u8>> {
        Some(match &self.open {
            Some(open) => {
                let quarantined: Vec<_> = open.reader.quarantined().collect();
                position(&open.reader.place(), open.reader.files(), &quarantined)
            }
            None => position(&self.place, self.files, self.quarantined()),
        })
    }

    fn continue_at(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (place, files, quarantined) =
            positioned(bytes).ok_or("the bytes are not a position in an exactly-once job")?;
        (self.place, self.files) = (place, files);
        match &mut self.quarantine {
            Some(quarantine) => quarantine.begin_with(quarantined),
            None if quarantined.is_empty() => {}
            None => {
                return Err(
                    "the position has quarantined elements, which the terms do not permit".to_owned(),
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_survive_their_bytes(
            split in 0_u64..9,
            had in prop::collection::btree_map(9_u64..30, any::<u64>(), 0..5),
            files: Option<u64>,
            quarantined in prop::collection::vec((0_u64..40, any::<u64>()), 0..5),
        ) {
            let place = Place { split, had };
            let elements = quarantined.into_iter().map(|(split, id)| QuarantinedElement { split, id });
            let elements: Vec<_> = elements.collect();
            let bytes = position(&place, files, &elements);
            prop_assert_eq!(positioned(&bytes), Some((place, files, elements)));
        }
    }

    #[test]
    fn other_bytes_are_no_position() {
        for bytes in [&[][..], &[1; 7], &[1; 20]] {
            assert_eq!(positioned(bytes), None, "{bytes:?}");
        }
        let place = Place {
            split: 5,
            had: BTreeMap::from([(3, 1)]),
        };
        assert_eq!(
            positioned(&position(&place, Some(1), &[])),
            None,
            "the split is finished"
        );
    }
}
