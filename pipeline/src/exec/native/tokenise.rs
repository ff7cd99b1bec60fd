//! The call of `tokenise`, which converts a text to the ids of its tokens by Hugging Face's library.

use std::io::Read;

use millstream_element::{Dtype, ElementSpec};
use tokenizers::Tokenizer;

use crate::exec::call::{Call, Place, guarded};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Dims, Value};
use crate::graph::{TOKENISER_BYTES_MAX, Tokenise, Tokeniser, column_of};
use crate::storage::{Storage, blame};

use super::made;

const OP: &str = "tokenise";

pub(crate) struct TokeniseCall {
    component: usize,
    tokeniser: Tokenizer,
    dtype: Dtype,
    special_tokens: bool,
    ids_max: usize,
}

impl TokeniseCall {
    /// Prepares the call. Reads the tokeniser's file if the tokeniser is defined in a file.
    pub(crate) fn new(
        tokenise: &Tokenise,
        input: &ElementSpec,
        storage: &Storage,
    ) -> Result<TokeniseCall, ExecError> {
        let refused = |reason: String| ExecError::new(ErrorKind::Caller, OP, reason);
        let component = column_of(&tokenise.component, input).map_err(refused)?;
        let tokeniser = match &tokenise.tokeniser {
            Tokeniser::Given(bytes) => defined(bytes),
            Tokeniser::File(path) => defined(&contents(path, storage)?),
        }?;
        let ids_max = tokenise.ids_max.and_then(|most| usize::try_from(most).ok());
        Ok(TokeniseCall {
            component,
            tokeniser,
            dtype: tokenise.dtype.0,
            special_tokens: tokenise.special_tokens,
            ids_max: ids_max.unwrap_or(usize::MAX),
        })
    }

    /// Returns the number of ids, and the ids as little-endian items.
    fn ids(&self, text: &[u8]) -> Result<(u64, Vec<u8>), String> {
        let text = std::str::from_utf8(text).map_err(|error| format!("the text is not UTF-8: {error}"))?;
        let encoding = self.tokeniser.encode_fast(text, self.special_tokens);
        let encoding = encoding.map_err(|error| format!("the tokeniser cannot split the text: {error}"))?;
        let ids = encoding.get_ids();
        let ids = &ids[..ids.len().min(self.ids_max)];
        let mut items = Vec::with_capacity(ids.len() * self.dtype.item_bytes().unwrap_or(0));
        for id in ids {
            if self.dtype == Dtype::I64 {
                items.extend(i64::from(*id).to_le_bytes());
            } else {
                let id = i32::try_from(*id).map_err(|_| format!("the id {id} exceeds i32: request i64"))?;
                items.extend(id.to_le_bytes());
            }
        }
        Ok((ids.len() as u64, items))
    }
}

impl Call for TokeniseCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let failed = |reason: String| ExecError::new(ErrorKind::Value, OP, reason);
        let missing = || ExecError::new(ErrorKind::Internal, OP, "the component is missing");
        let tensor = value.get_mut(self.component).ok_or_else(missing)?;
        let text = tensor.contiguous();
        let text = text.ok_or_else(|| failed("expected a single text in the component".to_owned()))?;
        let (count, items) = self.ids(text).map_err(failed)?;
        *tensor = made::fixed(self.dtype, Dims::from_slice(&[count]), items).map_err(failed)?;
        Ok(Some(value))
    }
}

/// Returns the tokeniser that `bytes` define.
fn defined(bytes: &[u8]) -> Result<Tokenizer, ExecError> {
    let refused = |error: tokenizers::Error| {
        let message = format!("invalid definition of a tokeniser (tokenizer.json): {error}");
        ExecError::new(ErrorKind::Caller, OP, message)
    };
    guarded(OP, || Tokenizer::from_bytes(bytes).map_err(refused))
}

/// Reads the file at `path`.
fn contents(path: &str, storage: &Storage) -> Result<Vec<u8>, ExecError> {
    let file = storage.open(path);
    let file = file.map_err(|error| ExecError::new(error.kind(), OP, error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(TOKENISER_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| ExecError::new(blame(&error), OP, format!("cannot read {path:?}: {error}")))?;
    if bytes.len() as u64 > TOKENISER_BYTES_MAX {
        let message = format!("{path:?} exceeds the limit of {TOKENISER_BYTES_MAX} bytes for a tokeniser");
        return Err(ExecError::new(ErrorKind::Caller, OP, message));
    }
    Ok(bytes)
}
