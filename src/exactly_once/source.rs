//! A pass of an exactly-once job as the source of a dataset in the trainer, and the position after each
//! element as a component. Refuses to know the order of elements.

use std::sync::Arc;

use millstream_client::ReaderConfig;
use millstream_element::{Dtype, ElementSpec, SpecError, Structure, TensorSpec};
use millstream_pipeline::exec::{Cancel, CancelHook, ExecError, Source, Tensor, Value};

use super::place::Place;
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
        let mut request = self.request.clone();
        request.exactly_once = Some(ExactTerms {
            place: self.place.clone(),
            files: self.files,
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

impl Open {
    fn next(&mut self, is_placed: bool) -> Result<Option<Value>, ExecError> {
        let Some(element) = self.reader.next_element().map_err(failed)? else {
            return Ok(None);
        };
        let value = value_from(&element, ExactReader::FIRST_COMPONENT)?;
        if !is_placed {
            return Ok(Some(value));
        }
        let place: Vec<u8> = self.reader.place_numbers().flat_map(u64::to_le_bytes).collect();
        let place = Tensor::fixed(Dtype::U8, &[place.len() as u64], place).map_err(peer)?;
        Ok(Some(std::iter::once(place).chain(value).collect()))
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

/// Returns the bytes of a position. The digest of its files follows, if the source has files.
fn position(place: &Place, files: Option<u64>) -> Vec<u8> {
    let mut bytes = place.to_bytes();
    bytes.extend(files.map(u64::to_le_bytes).iter().flatten());
    bytes
}

/// Returns a position and the digest of its files from the bytes that [`position`] returned; `None` for other
/// bytes.
fn positioned(bytes: &[u8]) -> Option<(Place, Option<u64>)> {
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
        self.opened()?.next(is_placed)
    }

    fn position(&self) -> Option<Vec<u8>> {
        Some(match &self.open {
            Some(open) => position(&open.reader.place(), open.reader.files()),
            None => position(&self.place, self.files),
        })
    }

    fn continue_at(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (place, files) =
            positioned(bytes).ok_or("the bytes are not a position in an exactly-once job")?;
        (self.place, self.files) = (place, files);
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
        ) {
            let place = Place { split, had };
            prop_assert_eq!(positioned(&position(&place, files)), Some((place, files)));
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
            positioned(&position(&place, Some(1))),
            None,
            "the split is finished"
        );
    }
}
