//! `tokenise`: replaces a text by the ids of its tokens.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer};

use super::feature::rows_of;
use super::function::NativeFunction;
use super::replaced::{is_string, replaced};
use crate::graph::check::check_name;
use crate::graph::expr::DtypeField;
use crate::graph::named::yes;

/// The maximum number of bytes of a tokeniser's definition, which is four times the size of the largest
/// definitions in use.
pub const TOKENISER_BYTES_MAX: u64 = 64 << 20;

/// Parameters of `tokenise`, which replaces a component of one text by a vector of ids.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Tokenise {
    /// The component that holds the text: a string, or a byte string of valid UTF-8.
    #[n(0)]
    pub component: String,
    /// The tokeniser that splits texts into tokens.
    #[n(1)]
    pub tokeniser: Tokeniser,
    /// The dtype of the ids: `i32` or `i64`.
    #[n(2)]
    #[serde(default = "ids_dtype")]
    pub dtype: DtypeField,
    /// `true` if the tokeniser adds its special tokens to a text, such as a token for the start of the text.
    #[n(3)]
    #[serde(default = "yes")]
    pub special_tokens: bool,
    /// The maximum number of ids of a text; a longer text keeps its first ids. `None` uses the setting of the
    /// tokeniser.
    #[n(4)]
    pub ids_max: Option<u64>,
}

/// The definition of a tokeniser, in the format of Hugging Face's `tokenizer.json`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokeniser {
    /// The bytes of the definition, which travel with the dataset.
    #[n(0)]
    Given(
        #[cbor(n(0), with = "minicbor::bytes")]
        #[serde(deserialize_with = "text_bytes")]
        Vec<u8>,
    ),
    /// The path of the file with the definition. Each worker reads the file when it opens the dataset.
    #[n(1)]
    File(#[n(0)] String),
}

impl Tokenise {
    /// Describes the tokenisation of the text in `component` into `i64` ids, with special tokens.
    pub fn new(component: impl Into<String>, tokeniser: Tokeniser) -> Tokenise {
        Tokenise {
            component: component.into(),
            tokeniser,
            dtype: DtypeField(Dtype::I64),
            special_tokens: true,
            ids_max: None,
        }
    }
}

fn ids_dtype() -> DtypeField {
    DtypeField(Dtype::I64)
}

/// Reads a tokeniser of JSON text, which is how front ends hold one.
fn text_bytes<'de, D: Deserializer<'de>>(text: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(text).map(String::into_bytes)
}

impl NativeFunction for Tokenise {
    fn check(&self) -> Result<(), String> {
        if !matches!(self.dtype.0, Dtype::I32 | Dtype::I64) {
            return Err(format!("makes ids of {}, expected i32 or i64", self.dtype.0));
        }
        if self.ids_max == Some(0) {
            return Err("keeps 0 ids of a text, the least is 1".to_owned());
        }
        match &self.tokeniser {
            Tokeniser::File(path) => check_name("path", path),
            Tokeniser::Given(bytes) if bytes.len() as u64 <= TOKENISER_BYTES_MAX => Ok(()),
            Tokeniser::Given(bytes) => Err(format!(
                "has a tokeniser of {} bytes, the limit is {TOKENISER_BYTES_MAX}",
                bytes.len()
            )),
        }
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        if rows_of(input, &self.component)?.is_some() {
            return Err(
                "expected a single text, found a batch: tokenise texts before they are batched".to_owned(),
            );
        }
        let ids = TensorSpec::with_dims(self.dtype.0, &[None]);
        replaced(input, &self.component, "a string", is_string, ids)
    }

    fn feature(&self) -> Option<&'static str> {
        Some("tokenise")
    }
}
