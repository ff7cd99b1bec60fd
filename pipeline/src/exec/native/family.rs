//! Prepares the calls of native functions: one line each.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::ExecError;
use crate::exec::value::Value;
use crate::graph::Native;

use super::{compute, parse_int, select};

/// The call of `native` for elements of `input`.
///
/// # Errors
/// [`ExecError`] of kind `Caller` for what nobody can compute.
pub(crate) fn prepare(native: &Native, input: &ElementSpec) -> Result<Arc<dyn Call>, ExecError> {
    Ok(match native {
        Native::Compute(compute) => Arc::new(compute::ComputeCall::new(compute, input)?),
        Native::ParseInt(parse) => Arc::new(parse_int::ParseIntCall::new(parse, input)?),
        Native::Select(select) => Arc::new(select::SelectCall::new(select, input)?),
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
