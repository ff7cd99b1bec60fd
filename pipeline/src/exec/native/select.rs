//! The call of `select`, which chooses and reorders components. The spec has the names of the components.

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::Value;
use crate::graph::{Select, column_of};

pub(crate) struct SelectCall {
    /// The indices of the chosen components in the input.
    components: Vec<usize>,
}

impl SelectCall {
    pub(crate) fn new(select: &Select, input: &ElementSpec) -> Result<SelectCall, ExecError> {
        let components = select.components.iter();
        let components = components.map(|selected| column_of(&selected.from, input));
        let components: Result<Vec<usize>, String> = components.collect();
        let refused = |reason| ExecError::new(ErrorKind::Caller, "select", reason);
        Ok(SelectCall {
            components: components.map_err(refused)?,
        })
    }
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
