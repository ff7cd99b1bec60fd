//! `split_ragged`: splits a vector of strings into a ragged tensor of their parts.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::feature::{rows_of, unpacked};
use super::function::NativeFunction;
use crate::graph::expr::{Split, column_of};

/// Parameters of `split_ragged`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct SplitRagged {
    /// The component that holds the strings, which are replaced by their parts.
    #[n(0)]
    pub component: String,
    /// The rule for the places at which texts are split.
    #[n(1)]
    pub split: Split,
}

impl NativeFunction for SplitRagged {
    fn check(&self) -> Result<(), String> {
        self.split.check()
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let Some(rows) = rows_of(input, &self.component)? else {
            return Err(
                "expected a vector of strings, found one string: use the expression split".to_owned(),
            );
        };
        let dtype = input.components()[column_of(&self.component, input)?].dtype();
        let parts = vec![
            TensorSpec::with_dims(dtype, &[None]),
            TensorSpec::with_dims(Dtype::I64, &[rows.and_then(|rows| rows.checked_add(1))]),
        ];
        let ragged = Structure::Ragged { ragged_rank: 1 };
        if *input.structure() == Structure::Leaf {
            return ElementSpec::new(ragged, parts).map_err(|error| error.to_string());
        }
        unpacked(
            input,
            &self.component,
            [(self.component.clone(), (ragged, parts))],
        )
    }
}
