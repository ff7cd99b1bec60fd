//! Preparation of the calls of native functions, with one line for each function.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
#[cfg(not(all(feature = "text", feature = "tokenise")))]
use crate::exec::error::ErrorKind;
use crate::exec::error::ExecError;
use crate::exec::value::Value;
use crate::graph::Native;
use crate::storage::Storage;

#[cfg(feature = "tokenise")]
use super::tokenise;
use super::{compute, example, parse_int, select, split_ragged};
#[cfg(feature = "text")]
use super::{csv_line, json};

/// Returns the call of `native` for elements of the spec `input`. Blocks on `storage` if the function is
/// defined in a file.
///
/// # Errors
/// [`ExecError`] of kind `Caller` if the function cannot be computed. If the function's file cannot be read,
/// the error of its storage.
#[cfg_attr(
    not(feature = "tokenise"),
    expect(unused_variables, reason = "only the tokeniser is defined in files")
)]
pub(crate) fn prepare(
    native: &Native,
    input: &ElementSpec,
    storage: &Storage,
) -> Result<Arc<dyn Call>, ExecError> {
    Ok(match native {
        Native::Compute(compute) => Arc::new(compute::ComputeCall::new(compute, input)?),
        Native::ParseInt(parse) => Arc::new(parse_int::ParseIntCall::new(parse, input)?),
        Native::Select(select) => Arc::new(select::SelectCall::new(select, input)?),
        Native::ParseExample(parse) => Arc::new(example::ExampleCall::new(parse, input)?),
        Native::ParseSequenceExample(parse) => Arc::new(example::SequenceExampleCall::new(parse, input)?),
        Native::SplitRagged(split) => Arc::new(split_ragged::SplitRaggedCall::new(split, input)?),
        #[cfg(feature = "text")]
        Native::ParseJson(parse) => Arc::new(json::JsonCall::new(parse, input)?),
        #[cfg(feature = "text")]
        Native::DecodeCsv(decode) => Arc::new(csv_line::CsvCall::new(decode, input)?),
        #[cfg(feature = "tokenise")]
        Native::Tokenise(tokenise) => Arc::new(tokenise::TokeniseCall::new(tokenise, input, storage)?),
        #[cfg(not(feature = "text"))]
        Native::ParseJson(_) | Native::DecodeCsv(_) => return Err(not_built_in(native)),
        #[cfg(not(feature = "tokenise"))]
        Native::Tokenise(_) => return Err(not_built_in(native)),
    })
}

/// Returns the feature that `native` needs, if this build lacks the feature.
pub(crate) fn missing_feature(native: &Native) -> Option<&'static str> {
    const BUILT_IN: &[&str] = &[
        #[cfg(feature = "text")]
        "text",
        #[cfg(feature = "tokenise")]
        "tokenise",
    ];
    native.feature().filter(|feature| !BUILT_IN.contains(feature))
}

#[cfg(not(all(feature = "text", feature = "tokenise")))]
fn not_built_in(native: &Native) -> ExecError {
    ExecError::new(
        ErrorKind::Caller,
        native.op_name(),
        "the function is not built in: build with its feature",
    )
}

/// A prepared call that several executions share.
pub(crate) struct Shared(pub(crate) Arc<dyn Call>);

impl Call for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        self.0.call(value, at)
    }
}
