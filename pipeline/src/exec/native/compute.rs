//! The call of `compute`, which replaces components by the results of expressions.

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expr::Formula;
use crate::exec::value::Value;
use crate::graph::{Compute, Outputs};

const OP: &str = "compute";

pub(crate) struct ComputeCall {
    formula: Formula,
    /// The component that each result replaces; `None` adds a new component.
    places: Vec<Option<usize>>,
    /// Whether the components that no result replaces are kept.
    keeps: bool,
}

impl ComputeCall {
    pub(crate) fn new(compute: &Compute, input: &ElementSpec) -> Result<ComputeCall, ExecError> {
        let refused = |reason: String| ExecError::new(ErrorKind::Caller, OP, reason);
        let typed = compute.typed(input).map_err(refused)?;
        Ok(ComputeCall {
            formula: Formula::new(&typed, input).map_err(refused)?,
            places: compute.places(input).map_err(refused)?,
            keeps: compute.outputs == Outputs::Components,
        })
    }
}

impl Call for ComputeCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let mut computed = Value::new();
        self.formula
            .compute(&value, |_, tensor| computed.push(tensor))
            .map_err(|error| error.of(OP))?;
        if !self.keeps {
            return Ok(Some(computed));
        }
        for (place, tensor) in self.places.iter().zip(computed) {
            match place.map(|place| value.get_mut(place)) {
                Some(Some(component)) => *component = tensor,
                Some(None) => {
                    return Err(ExecError::new(ErrorKind::Internal, OP, "a component is missing"));
                }
                None => value.push(tensor),
            }
        }
        Ok(Some(value))
    }
}
