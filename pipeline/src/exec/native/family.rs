//! Prepares the calls of native functions: one line each.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
#[cfg(not(feature = "text"))]
use crate::exec::error::ErrorKind;
use crate::exec::error::ExecError;
use crate::exec::value::Value;
use crate::graph::Native;

use super::{compute, example, parse_int, select, split_ragged};
#[cfg(feature = "text")]
use super::{csv_line, json};

/// The call of `native` for elements of `input`.
///
/// # Errors
/// [`ExecError`] of kind `Caller` for what nobody can compute.
pub(crate) fn prepare(native: &Native, input: &ElementSpec) -> Result<Arc<dyn Call>, ExecError> {
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
        #[cfg(not(feature = "text"))]
        Native::ParseJson(_) | Native::DecodeCsv(_) => {
            let op = native.op_name();
            return Err(ExecError::new(
                ErrorKind::Caller,
                op,
                "is not built in: build with the feature \"text\"",
            ));
        }
    })
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
