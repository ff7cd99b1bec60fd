//! The state of an executor as bytes, which `save` writes and `restore` reads. The encoding is CBOR. Each
//! operation's part follows the operation's name, so that the state of another graph is recognised.

use std::sync::Arc;

use bytes::Bytes;
use millstream_element::Dtype;
use minicbor::decode::Decoder;
use minicbor::encode::Encoder;
use thiserror::Error;

use super::error::{ErrorKind, ExecError, Origin};
use super::item::Item;
use super::token::Marks;
use super::value::{Dims, Tensor, TensorData, Value, fixed_bytes};

/// Maximum bytes of a saved state. The buffers of shuffles are part of the state.
pub const STATE_BYTES_MAX: usize = 1 << 30;

/// The reason why a state cannot be saved or restored.
#[derive(Debug, Error)]
pub enum StateError {
    /// The state would exceed its size limit.
    #[error(
        "the state of the pipeline exceeds {STATE_BYTES_MAX} bytes; use smaller shuffle and prefetch buffers"
    )]
    TooLarge,
    /// The pipeline reads splits, so the dispatcher keeps its position.
    #[error("a pipeline that reads splits cannot be saved: the dispatcher keeps its position")]
    SplitDriven,
    /// An operation has no state that could be saved.
    #[error("operation {op:?} cannot be saved: {reason}")]
    Unsupported {
        /// The name of the operation.
        op: String,
        /// The reason why the operation cannot be saved.
        reason: &'static str,
    },
    /// The state was saved by another graph.
    #[error(
        "the state belongs to another dataset: expected the state of {expected:?}, found the state of {found:?}"
    )]
    Mismatch {
        /// The name that the graph has at this place.
        expected: &'static str,
        /// The name that the state has at this place.
        found: String,
    },
    /// The state was saved by an executor that was opened with other settings.
    #[error(
        "the state belongs to {what}: open the executor with the settings of the executor that saved the state"
    )]
    Foreign {
        /// The setting that differs.
        what: &'static str,
    },
    /// The bytes are not a state.
    #[error("invalid state of a pipeline: {0}")]
    Malformed(String),
    /// An element that should be saved could not be produced, or the pipeline that should continue could not
    /// be opened.
    #[error("{0}")]
    Failed(#[from] ExecError),
}

/// A writer that collects a state.
#[derive(Debug)]
pub struct StateWriter {
    encoder: Encoder<Vec<u8>>,
}

/// A reader of a state.
#[derive(Debug)]
pub struct StateReader<'b> {
    decoder: Decoder<'b>,
}

impl Default for StateWriter {
    fn default() -> StateWriter {
        StateWriter::new()
    }
}

impl StateWriter {
    /// Returns a writer of an empty state.
    pub fn new() -> StateWriter {
        StateWriter {
            encoder: Encoder::new(Vec::new()),
        }
    }

    /// Returns the bytes of the state.
    pub fn into_bytes(self) -> Vec<u8> {
        self.encoder.into_writer()
    }

    /// Begins the part of the operation `op`.
    pub(crate) fn begin(&mut self, op: &'static str) -> Result<(), StateError> {
        written(self.encoder.str(op))?;
        self.check_size()
    }

    pub(crate) fn number(&mut self, value: u64) -> Result<(), StateError> {
        written(self.encoder.u64(value))
    }

    pub(crate) fn flag(&mut self, value: bool) -> Result<(), StateError> {
        written(self.encoder.bool(value))
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> Result<(), StateError> {
        written(self.encoder.bytes(value))?;
        self.check_size()
    }

    /// Writes a failure that has occurred and has not been returned yet. Only a passable failure can be
    /// written; any other failure is returned as the error.
    pub(crate) fn failure(&mut self, error: &ExecError) -> Result<(), StateError> {
        if !error.is_passable() {
            return Err(error.clone().into());
        }
        let failure = error.failure();
        let (is_of_data, is_special) = match failure.kind {
            ErrorKind::NotFound => (true, true),
            ErrorKind::Data => (true, false),
            ErrorKind::Value => (false, true),
            ErrorKind::UserFunction
            | ErrorKind::Caller
            | ErrorKind::Precondition
            | ErrorKind::Resource
            | ErrorKind::Peer
            | ErrorKind::Cancelled
            | ErrorKind::Internal => (false, false),
        };
        self.flag(is_of_data)?;
        self.flag(is_special)?;
        self.bytes(failure.op.as_bytes())?;
        self.bytes(failure.message.as_bytes())?;
        self.origin(failure.origin.as_ref())?;
        self.flag(failure.position.is_some())?;
        self.number(failure.position.unwrap_or(0))
    }

    fn origin(&mut self, origin: Option<&Origin>) -> Result<(), StateError> {
        self.flag(origin.is_some())?;
        if let Some(origin) = origin {
            self.bytes(origin.file().as_bytes())?;
            self.number(origin.offset_bytes)?;
            self.bytes(origin.key().as_bytes())?;
        }
        Ok(())
    }

    /// Writes a whole element. Computes the element's deferred tensors.
    pub(crate) fn item(&mut self, item: &Item) -> Result<(), StateError> {
        if !item.marks.is_empty() {
            return Err(StateError::SplitDriven);
        }
        self.number(item.position)?;
        self.origin(item.origin.as_ref())?;
        self.number(item.value.len() as u64)?;
        item.value
            .iter()
            .try_for_each(|tensor| self.tensor(&tensor.settled()?))
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<(), StateError> {
        self.number(u64::from(tensor.dtype().code()))?;
        self.number(tensor.dims().len() as u64)?;
        tensor.dims().iter().try_for_each(|dim| self.number(*dim))?;
        match tensor.contiguous() {
            Some(bytes) if tensor.dtype().item_bytes().is_some() => self.bytes(bytes),
            Some(_) | None => {
                let mut result = Ok(());
                tensor.for_each_string(&mut |item| {
                    if result.is_ok() {
                        result = self.bytes(item);
                    }
                });
                result
            }
        }
    }

    fn check_size(&self) -> Result<(), StateError> {
        if self.encoder.writer().len() > STATE_BYTES_MAX {
            Err(StateError::TooLarge)
        } else {
            Ok(())
        }
    }
}

impl<'b> StateReader<'b> {
    /// Returns a reader of the state in `bytes`.
    pub fn new(bytes: &'b [u8]) -> StateReader<'b> {
        StateReader {
            decoder: Decoder::new(bytes),
        }
    }

    /// Begins the part of the operation `op`.
    pub(crate) fn begin(&mut self, op: &'static str) -> Result<(), StateError> {
        let found = self.decoder.str().map_err(malformed)?;
        if found != op {
            return Err(StateError::Mismatch {
                expected: op,
                found: found.chars().take(64).collect(),
            });
        }
        Ok(())
    }

    pub(crate) fn number(&mut self) -> Result<u64, StateError> {
        self.decoder.u64().map_err(malformed)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StateError> {
        self.decoder.bool().map_err(malformed)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], StateError> {
        self.decoder.bytes().map_err(malformed)
    }

    /// Returns an error if bytes are left after the end of the state.
    pub(crate) fn finish(&self) -> Result<(), StateError> {
        let left = self.decoder.input().len() - self.decoder.position();
        if left == 0 {
            Ok(())
        } else {
            Err(StateError::Malformed(format!(
                "expected the end of the state, found {left} more bytes"
            )))
        }
    }

    fn text(&mut self) -> Result<&'b str, StateError> {
        std::str::from_utf8(self.bytes()?).map_err(|error| StateError::Malformed(error.to_string()))
    }

    /// Reads a passable failure.
    pub(crate) fn failure(&mut self) -> Result<ExecError, StateError> {
        let kind = match (self.flag()?, self.flag()?) {
            (true, true) => ErrorKind::NotFound,
            (true, false) => ErrorKind::Data,
            (false, true) => ErrorKind::Value,
            (false, false) => ErrorKind::UserFunction,
        };
        let error = ExecError::new(kind, self.text()?, self.text()?).of_element();
        let error = error.at(self.origin()?.as_ref());
        let (has_position, position) = (self.flag()?, self.number()?);
        Ok(if has_position {
            error.at_position(position)
        } else {
            error
        })
    }

    fn origin(&mut self) -> Result<Option<Origin>, StateError> {
        if !self.flag()? {
            return Ok(None);
        }
        let file = Arc::from(self.text()?);
        let offset_bytes = self.number()?;
        Ok(Some(Origin::new(&file, offset_bytes, self.text()?)))
    }

    /// Reads an element.
    pub(crate) fn item(&mut self) -> Result<Item, StateError> {
        let position = self.number()?;
        let origin = self.origin()?;
        let mut value = Value::new();
        for _ in 0..self.number()? {
            value.push(self.tensor()?);
        }
        Ok(Item {
            origin,
            ..Item::marked(value, Marks::new(), position)
        })
    }

    fn tensor(&mut self) -> Result<Tensor, StateError> {
        let wrong = || StateError::Malformed("a tensor's data does not match its shape".to_owned());
        let code = u8::try_from(self.number()?).ok();
        let dtype = code.and_then(Dtype::from_code).ok_or_else(wrong)?;
        let mut dims = Dims::new();
        for _ in 0..self.number()? {
            dims.push(self.number()?);
        }
        if dtype.item_bytes().is_some() {
            let bytes = self.bytes()?;
            if fixed_bytes(dtype, &dims) != Some(bytes.len()) {
                return Err(wrong());
            }
            return Ok(Tensor::from_parts(
                dtype,
                dims,
                TensorData::Shared(Bytes::copy_from_slice(bytes)),
            ));
        }
        if dims.is_empty() {
            let data = TensorData::Shared(Bytes::copy_from_slice(self.bytes()?));
            return Ok(Tensor::from_parts(dtype, dims, data));
        }
        let count = dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim))
            .ok_or_else(wrong)?;
        let mut items: Vec<Bytes> = Vec::new();
        for _ in 0..count {
            items.push(Bytes::copy_from_slice(self.bytes()?));
        }
        Ok(Tensor::from_parts(dtype, dims, TensorData::Strings(items.into())))
    }
}

fn written<E: std::fmt::Display>(result: Result<impl Sized, E>) -> Result<(), StateError> {
    result
        .map(|_| ())
        .map_err(|error| StateError::Malformed(error.to_string()))
}

fn malformed(error: minicbor::decode::Error) -> StateError {
    StateError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skippable_failure_survives_its_encoding() {
        for kind in [
            ErrorKind::Data,
            ErrorKind::Value,
            ErrorKind::NotFound,
            ErrorKind::UserFunction,
        ] {
            let failed = || ExecError::new(kind, "op", "broken");
            for error in [failed().of_element(), failed().of_element().at_position(7)] {
                let mut state = StateWriter::new();
                state.failure(&error).unwrap();
                let bytes = state.into_bytes();
                let read = StateReader::new(&bytes).failure().unwrap();
                assert_eq!(format!("{read:?}"), format!("{error:?}"));
            }
            let whole = StateWriter::new().failure(&failed());
            assert!(matches!(whole, Err(StateError::Failed(_))), "{whole:?}");
        }
    }
}
