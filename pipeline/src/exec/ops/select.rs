//! `select`: chooses and orders components. Their names are the spec's business.

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::Value;

pub(crate) struct SelectCall {
    /// The places of the chosen components in the input.
    pub(crate) components: Vec<usize>,
}

impl Call for SelectCall {
    fn name(&self) -> &str {
        "select"
    }

    fn call(&self, value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let selected: Option<Value> = self.components.iter().map(|at| value.get(*at).cloned()).collect();
        let missing = || ExecError::new(ErrorKind::Internal, "select", "a component is missing");
        selected.map(Some).ok_or_else(missing)
    }
}
