//! Expressions that are ready to be computed, and conditions on elements.

use smallvec::SmallVec;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Tensor, TensorData, Value};
use crate::graph::{Expr, ExprOp, Typed, TypedNode, column_of, typed_predicate};
use millstream_element::{ElementSpec, TensorSpec};

use super::compute::kernel;
use super::kernel::Kernel;

/// Maximum bytes of a tensor that is computed from constants alone and kept.
const CONSTANT_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes that all operations on one element may hold together: four tensors of the largest size.
const HELD_BYTES_MAX: usize = 4 << 30;

/// Expressions over elements of one spec, ready to be computed.
pub(crate) struct Formula {
    steps: Vec<Step>,
    /// The place of each result.
    results: Vec<Place>,
    /// The values that do not depend on the element.
    constants: Vec<Tensor>,
    /// The components that the expressions read. Deferred components are computed before the steps run.
    columns: Vec<usize>,
}

/// One operation of a formula.
struct Step {
    kernel: Kernel,
    operands: SmallVec<[Place; 3]>,
    /// The text that messages show: the function with its operands.
    name: String,
    /// The spec of the step's result.
    spec: TensorSpec,
}

/// The place of an operand or a result.
#[derive(Debug, Clone, Copy)]
enum Place {
    Column(usize),
    Constant(usize),
    /// The result of the step with this index.
    Step(usize),
}

impl Formula {
    /// Prepares the expressions `typed`, which read elements of the spec `input`.
    ///
    /// # Errors
    /// A text that states the reason, such as an invalid pattern.
    pub(crate) fn new(typed: &Typed, input: &ElementSpec) -> Result<Formula, String> {
        let mut formula = Formula {
            steps: Vec::new(),
            results: Vec::new(),
            constants: Vec::new(),
            columns: Vec::new(),
        };
        let mut places: Vec<Place> = Vec::with_capacity(typed.nodes.len());
        for node in &typed.nodes {
            let place = formula.add(node, typed, &places, input)?;
            places.push(place);
        }
        formula.results = typed.results.iter().map(|result| places[*result]).collect();
        Ok(formula)
    }

    fn add(
        &mut self,
        node: &TypedNode,
        typed: &Typed,
        places: &[Place],
        input: &ElementSpec,
    ) -> Result<Place, String> {
        if let ExprOp::Column(name) = &node.op {
            let column = column_of(name, input)?;
            self.columns.push(column);
            return Ok(Place::Column(column));
        }
        let given: Vec<&TensorSpec> = node.args.iter().map(|arg| &typed.nodes[*arg].spec).collect();
        let shown: Vec<String> = given.iter().map(ToString::to_string).collect();
        let name = format!("`{}` of {}", node.op.name(), shown.join(" and "));
        let kernel = kernel(&node.op, &given).map_err(|reason| format!("{name}: {reason}"))?;
        let operands: SmallVec<[Place; 3]> = node.args.iter().map(|arg| places[*arg]).collect();
        // A result that is equal for every element is computed here. If the computation fails, the elements
        // that need the result report the error.
        let constant: Option<Vec<&Tensor>> = operands
            .iter()
            .map(|operand| match operand {
                Place::Constant(index) => Some(&self.constants[*index]),
                Place::Column(_) | Place::Step(_) => None,
            })
            .collect();
        let constant = constant.filter(|given| given.is_empty() || is_small(&node.spec));
        if let Some(Ok(value)) = constant.map(|given| kernel(&given)) {
            self.constants.push(value);
            return Ok(Place::Constant(self.constants.len() - 1));
        }
        self.steps.push(Step {
            kernel,
            operands,
            name,
            spec: node.spec.clone(),
        });
        Ok(Place::Step(self.steps.len() - 1))
    }

    /// Evaluates the expressions for `value`, and passes the results to `each`, one after the other.
    ///
    /// # Errors
    /// The error that states which operation cannot be computed for this element.
    pub(crate) fn compute(
        &self,
        value: &Value,
        mut each: impl FnMut(usize, Tensor),
    ) -> Result<(), FormulaError> {
        let settled = self.settled(value)?;
        let value = settled.as_ref().unwrap_or(value);
        let mut done: SmallVec<[Tensor; 4]> = SmallVec::new();
        let mut held = 0usize;
        for step in &self.steps {
            let mut operands: SmallVec<[&Tensor; 3]> = SmallVec::new();
            for operand in &step.operands {
                operands.push(self.tensor(*operand, value, &done)?);
            }
            let failed = |reason: String| FormulaError::Data(format!("{}: {reason}", step.name));
            let result = (step.kernel)(&operands).map_err(failed)?;
            if !result.fits(&step.spec) {
                return Err(failed(format!(
                    "found a result {}{:?}, expected {} from the specs of the components",
                    result.dtype(),
                    result.dims(),
                    step.spec
                )));
            }
            drop(operands);
            held = held.saturating_add(result.held_bytes());
            if held > HELD_BYTES_MAX {
                return Err(failed(format!(
                    "the expressions of one element hold more than {HELD_BYTES_MAX} bytes"
                )));
            }
            done.push(result);
        }
        for (index, result) in self.results.iter().enumerate() {
            // The result is moved out instead of shared if no other result needs it.
            let last =
                self.results.len() == 1 && matches!(result, Place::Step(step) if step + 1 == done.len());
            let result = if last {
                done.pop().ok_or_else(missing)?
            } else {
                self.tensor(*result, value, &done)?.clone()
            };
            each(index, result);
        }
        Ok(())
    }

    /// Returns the element with all components computed that the expressions read, or `None` if they are
    /// computed already.
    fn settled(&self, value: &Value) -> Result<Option<Value>, FormulaError> {
        let is_deferred = |column: &usize| {
            value
                .get(*column)
                .is_some_and(|tensor| matches!(tensor.data(), TensorData::Rows(_) | TensorData::Fill(_)))
        };
        if !self.columns.iter().any(is_deferred) {
            return Ok(None);
        }
        let mut settled = value.clone();
        for column in &self.columns {
            if let Some(tensor) = settled.get_mut(*column) {
                *tensor = tensor.settled().map_err(FormulaError::Deferred)?;
            }
        }
        Ok(Some(settled))
    }

    fn tensor<'t>(
        &'t self,
        place: Place,
        value: &'t Value,
        done: &'t [Tensor],
    ) -> Result<&'t Tensor, FormulaError> {
        let tensor = match place {
            Place::Column(column) => value.get(column),
            Place::Constant(constant) => self.constants.get(constant),
            Place::Step(step) => done.get(step),
        };
        tensor.ok_or_else(missing)
    }
}

/// Returns whether a constant of this spec is small enough to be kept instead of computed for every element.
fn is_small(spec: &TensorSpec) -> bool {
    let is_one = spec.dims().is_some_and(<[Option<u64>]>::is_empty);
    spec.payload_bytes()
        .map_or(is_one, |bytes| bytes <= CONSTANT_BYTES_MAX)
}

/// The reason why expressions cannot be computed for an element.
#[derive(Debug)]
pub(crate) enum FormulaError {
    /// A deferred computation of a component failed.
    Deferred(ExecError),
    /// The data of the element does not permit the computation.
    Data(String),
    /// A component of the spec is missing.
    Missing,
}

fn missing() -> FormulaError {
    FormulaError::Missing
}

impl FormulaError {
    /// Converts the reason to a failure of the operation `op`.
    pub(crate) fn of(self, op: &str) -> ExecError {
        match self {
            FormulaError::Deferred(error) => error,
            FormulaError::Data(message) => ExecError::new(ErrorKind::Value, op, message),
            FormulaError::Missing => ExecError::new(ErrorKind::Internal, op, "a component is missing"),
        }
    }
}

/// A condition that is true or false for an element.
pub(crate) struct Verdict(Formula);

impl Verdict {
    /// Prepares `expr`, which must yield a `bool` scalar, for elements of the spec `input`.
    ///
    /// # Errors
    /// [`ErrorKind::Caller`] if an operation cannot be computed. The error names the operation.
    pub(crate) fn new(expr: &Expr, input: &ElementSpec) -> Result<Verdict, ExecError> {
        let refused = |reason: String| ExecError::new(ErrorKind::Caller, "filter", reason);
        let typed = typed_predicate(expr, input).map_err(|error| refused(error.to_string()))?;
        Formula::new(&typed, input).map(Verdict).map_err(refused)
    }

    /// Returns whether the condition is true for `value`.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] if the condition cannot be computed.
    pub(crate) fn holds(&self, op: &str, value: &Value) -> Result<bool, ExecError> {
        let mut verdict = None;
        let computed = self.0.compute(value, |_, tensor| {
            verdict = match (tensor.dims(), tensor.contiguous()) {
                ([], Some([truth])) => Some(*truth != 0),
                (_, _) => None,
            };
        });
        computed.map_err(|error| error.of(op))?;
        verdict.ok_or_else(|| {
            ExecError::new(
                ErrorKind::Value,
                op,
                "expected a condition of one bool, found a tensor",
            )
        })
    }
}
