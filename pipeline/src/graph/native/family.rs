//! The table of native functions, one line a function.

use millstream_element::ElementSpec;
use serde_json::{Map, Value};

use super::compute::Compute;
use super::csv_line::DecodeCsv;
use super::example::{ParseExample, ParseSequenceExample};
use super::function::NativeFunction;
use super::json::ParseJson;
use super::parse_int::ParseInt;
use super::select::Select;
use super::split_ragged::SplitRagged;
use super::tokenise::Tokenise;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::named::named_params;

macro_rules! family {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A native function with its parameters.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Native {
            $($(#[$doc])* $variant($variant),)*
        }

        impl Native {
            /// The names of all native functions.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// Returns the name of the operation on the wire and in messages.
            pub fn op_name(&self) -> &'static str {
                match self {
                    $(Native::$variant(_) => $name,)*
                }
            }

            fn function(&self) -> &dyn Functional {
                match self {
                    $(Native::$variant(function) => function,)*
                }
            }

            /// Decodes the function with the name `op` from its parameters; returns `None` if `op` is not a
            /// native function.
            pub(crate) fn decode(
                op: &str,
                params: &[u8],
            ) -> Option<Result<Native, minicbor::decode::Error>> {
                match op {
                    $($name => Some(minicbor::decode(params).map(Native::$variant)),)*
                    _ => None,
                }
            }

            /// Makes the function that is called `op` from its named parameters. Returns `None` for another
            /// operation.
            pub(crate) fn named(op: &str, parameters: &Map<String, Value>) -> Option<Result<Native, String>> {
                match op {
                    $($name => Some(named_params::<$variant>(parameters.clone()).map(Native::$variant)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$variant> for Native {
            fn from(function: $variant) -> Native {
                Native::$variant(function)
            }
        })*
    };
}

family! {
    /// Computes components by expressions.
    Compute = "compute",
    /// Reads a component of decimal text as an `i64`.
    ParseInt = "parse_int",
    /// Chooses, orders and names components.
    Select = "select",
    /// Parses serialised `tf.train.Example`s into features.
    ParseExample = "parse_example",
    /// Parses a serialised `tf.train.SequenceExample` into features.
    ParseSequenceExample = "parse_sequence_example",
    /// Parses a JSON text into fields.
    ParseJson = "parse_json",
    /// Parses lines of comma-separated values into columns.
    DecodeCsv = "decode_csv",
    /// Splits strings into a ragged tensor of their parts.
    SplitRagged = "split_ragged",
    /// Replaces a text by the ids of its tokens.
    Tokenise = "tokenise",
}

impl Native {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        self.function()
            .encoded()
            .map_err(|error| GraphError::Malformed(error.to_string()))
    }

    /// Checks the parameters, without knowledge of the input.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.function().checked()
    }

    /// Returns the spec of the output for elements of `input`.
    pub(crate) fn output(&self, input: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        let refused = |reason| AnalysisError::Mismatch {
            op: self.op_name().to_owned(),
            reason,
        };
        self.function().yielded(input).map_err(refused)
    }

    /// Returns the cargo feature that the function's calls need; `None` if they need no feature.
    pub(crate) fn feature(&self) -> Option<&'static str> {
        self.function().needed_feature()
    }
}

/// The object-safe form of [`NativeFunction`].
trait Functional {
    fn encoded(&self) -> Result<Vec<u8>, minicbor::encode::Error<std::convert::Infallible>>;
    fn checked(&self) -> Result<(), String>;
    fn yielded(&self, input: &ElementSpec) -> Result<ElementSpec, String>;
    fn needed_feature(&self) -> Option<&'static str>;
}

impl<F: NativeFunction> Functional for F {
    fn encoded(&self) -> Result<Vec<u8>, minicbor::encode::Error<std::convert::Infallible>> {
        minicbor::to_vec(self)
    }

    fn checked(&self) -> Result<(), String> {
        self.check()
    }

    fn yielded(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        self.output(input)
    }

    fn needed_feature(&self) -> Option<&'static str> {
        self.feature()
    }
}
