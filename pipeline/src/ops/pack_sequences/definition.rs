//! The definition of `pack_sequences`, which joins sequences of tokens and cuts the result into rows of
//! one length.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::expr::column_of;
use crate::graph::tree::{Given, Operation};

/// The parameters of `pack_sequences`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct PackSequences {
    /// The component that holds the tokens, a vector of integers. Other components are dropped.
    #[n(0)]
    pub component: String,
    /// The number of tokens per row, at least 1.
    #[n(1)]
    pub length: u64,
    /// The token to append to every sequence, such as an end-of-text token. The separator counts as the
    /// last token of its sequence.
    #[n(2)]
    pub separator: Option<i64>,
    /// The token that pads a row that is not full.
    #[n(3)]
    #[serde(default)]
    pub padding: i64,
    /// The rule for cutting a sequence at the end of a row.
    #[n(4)]
    #[serde(default)]
    pub cut: Cut,
    /// Whether to drop the last row if the row is not full.
    #[n(5)]
    #[serde(default)]
    pub drop_remainder: bool,
}

/// The rule for cutting a sequence at the end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Cuts a sequence wherever a row is full. Only the last row has padding.
    #[default]
    #[n(0)]
    Anywhere,
    /// Cuts only sequences that are longer than a row. A sequence that does not fit into the rest of a
    /// row begins the next row, and the rest of the row is padded.
    #[n(1)]
    TooLong,
}

impl PackSequences {
    /// Packs rows of `length` tokens from `component`. Cuts sequences wherever a row is full, and pads
    /// with zeros.
    pub fn new(component: impl Into<String>, length: u64) -> PackSequences {
        PackSequences {
            component: component.into(),
            length,
            separator: None,
            padding: 0,
            cut: Cut::Anywhere,
            drop_remainder: false,
        }
    }

    /// Returns the spec of the rows for elements of the spec `input`.
    fn rows_of(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let tokens = &input.components()[column_of(&self.component, input)?];
        let dtype = tokens.dtype();
        let is_vector = tokens.dims().is_none_or(|dims| dims.len() == 1);
        let largest = largest(dtype);
        let Some(largest) = largest.filter(|_| is_vector) else {
            return Err(format!(
                "expected a vector of integers in component {:?}, found {input}",
                self.component
            ));
        };
        let least = if matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64) {
            0
        } else {
            -largest - 1
        };
        for token in self.separator.iter().chain([&self.padding]) {
            if *token > largest || *token < least {
                return Err(format!("the token {token} is outside of the range of {dtype}"));
            }
        }
        let numbers = || TensorSpec::fixed(Dtype::I32, &[self.length]);
        let fields = [
            ("tokens", TensorSpec::fixed(dtype, &[self.length])),
            ("segment_ids", numbers()),
            ("positions", numbers()),
        ];
        ElementSpec::dict(fields).map_err(|error| error.to_string())
    }
}

impl Operation for PackSequences {
    fn name(&self) -> &'static str {
        "pack_sequences"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("row", self.length)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.rows_of(given.input()?)
            .map_err(|reason| given.mismatch(reason))
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        false
    }

    fn drops_remainder(&self) -> bool {
        self.drop_remainder
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("combines several positions in one element")
    }
}

/// Returns the largest integer that both `dtype` and `i64` can hold. Returns `None` if `dtype` is not
/// an integer type.
fn largest(dtype: Dtype) -> Option<i64> {
    Some(match dtype {
        Dtype::I8 => i8::MAX.into(),
        Dtype::I16 => i16::MAX.into(),
        Dtype::I32 => i32::MAX.into(),
        Dtype::I64 | Dtype::U64 => i64::MAX,
        Dtype::U8 => u8::MAX.into(),
        Dtype::U16 => u16::MAX.into(),
        Dtype::U32 => u32::MAX.into(),
        Dtype::Bool
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::F32
        | Dtype::F64
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => return None,
    })
}

impl Dataset {
    /// Joins sequences of tokens, and cuts the result into rows of one length. Each row is a dict of
    /// three vectors:
    /// - `tokens`: the tokens.
    /// - `segment_ids` (`i32`): the number of the token's sequence within the row, from 1; 0 marks
    ///   padding.
    /// - `positions` (`i32`): the token's place in its sequence; 0 for padding. If a sequence continues
    ///   in the next row, its positions continue too.
    ///
    /// Packs like `seqio` and `t5x`. An element that is not a vector of integers is an
    /// error. [`Dataset::graph`] refuses a length of 0.
    pub fn pack_sequences(self, pack: PackSequences) -> Dataset {
        self.then(pack)
    }
}
