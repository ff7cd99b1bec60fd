//! `parse_int`: parses decimal text as an `i64`.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::function::NativeFunction;
use super::replaced::{is_string, replaced};

/// Parameters of `parse_int`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseInt {
    /// The component that holds the text.
    #[n(0)]
    pub component: String,
}

impl NativeFunction for ParseInt {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let output = TensorSpec::fixed(Dtype::I64, &[]);
        replaced(input, &self.component, "a string", is_string, output)
    }
}
