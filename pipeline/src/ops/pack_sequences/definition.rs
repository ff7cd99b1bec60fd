//! The definition of `pack_sequences`: sequences of tokens one after the other, in rows of one length.
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

/// Parameters of `pack_sequences`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct PackSequences {
    /// The component that holds the tokens: integers, a vector. Other components are left behind.
    #[n(0)]
    pub component: String,
    /// Tokens of a row, at least 1.
    #[n(1)]
    pub length: u64,
    /// The token that follows every sequence and counts as its last one, such as the end of a text.
    #[n(2)]
    pub separator: Option<i64>,
    /// The token that fills a row that is not full.
    #[n(3)]
    #[serde(default)]
    pub padding: i64,
    /// When a sequence goes on in the next row.
    #[n(4)]
    #[serde(default)]
    pub cut: Cut,
    /// Whether a last row that is not full is dropped.
    #[n(5)]
    #[serde(default)]
    pub drop_remainder: bool,
}

/// When a sequence goes on in the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Wherever a row is full: rows have no padding but the last.
    #[default]
    #[n(0)]
    Anywhere,
    /// Only if it is longer than a row: one that does not fit behind others begins the next row, and this one
    /// is padded.
    #[n(1)]
    TooLong,
}

impl PackSequences {
    /// Rows of `length` tokens of `component`, cut wherever they are full and padded with zeros.
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

    /// Returns the spec of the rows for elements of `input`.
    fn rows_of(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let tokens = &input.components()[column_of(&self.component, input)?];
        let dtype = tokens.dtype();
        let is_vector = tokens.dims().is_none_or(|dims| dims.len() == 1);
        let largest = largest(dtype);
        let Some(largest) = largest.filter(|_| is_vector) else {
            return Err(format!(
                "component {:?} should be a vector of integers: {input}",
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
                return Err(format!("the token {token} does not fit {dtype}"));
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

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("puts several positions into one element")
    }
}

/// The largest integer of `dtype` that is an `i64` too.
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
    /// Puts sequences of tokens one behind the other, and yields them in rows of one length: a dict of
    /// `tokens`, of `segment_ids` (`i32`: which sequence of the row a token is of, from 1; 0 = padding) and
    /// of `positions` (`i32`: its place in its sequence, which goes on where a sequence does in the next row;
    /// 0 = padding).
    ///
    /// As `seqio` and `t5x` pack. Elements that are no vectors of integers are an error; lengths of 0 are
    /// refused.
    pub fn pack_sequences(self, pack: PackSequences) -> Dataset {
        self.then(pack)
    }
}
