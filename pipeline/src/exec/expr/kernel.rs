//! The type of functions that compute one operation of an expression.

use crate::exec::value::Tensor;

/// A function that computes one operation from its operands.
pub(crate) type Kernel = Box<dyn Fn(&[&Tensor]) -> Result<Tensor, String> + Send + Sync>;
