//! The type of what computes one operation of an expression.

use crate::exec::value::Tensor;

/// Computes one operation of its operands.
pub(crate) type Kernel = Box<dyn Fn(&[&Tensor]) -> Result<Tensor, String> + Send + Sync>;
