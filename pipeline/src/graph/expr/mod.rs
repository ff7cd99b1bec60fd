//! Expressions over the components of an element: their operations, the methods that build them, and the
//! inference of their results. The computation of expressions is in `exec`.
//!
//! - [`Expr`] holds operations in the order of their evaluation; [`col`] and [`lit`] begin an expression.
//! - `typed` infers dtypes and shapes, and chooses dtypes for plain numbers by the other operands.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod column;
mod dtype_field;
mod expression;
mod fluent;
mod fluent_shape;
mod fluent_text;
mod kinds;
mod literal;
mod op;
mod shapes;
mod shaping_spec;
mod text_op;
mod text_spec;
mod typed;

pub use dtype_field::DtypeField;
pub use expression::{EXPR_NODES_MAX, Expr, ExprNode};
pub use fluent::{col, concat, lit, stack};
pub use fluent_text::joined;
pub use literal::{Literal, Tensor as LiteralTensor};
pub use op::{Binary, Cast, DecodeRaw, ExprOp, OneHot, PadTo, Reduce, Reduction, Shaping, Span, Unary};
pub use text_op::{Lookup, Split, Substr, Text, TextUnit};

pub(crate) use column::column_of;
pub(crate) use shapes::{axis_of, broadcast};
pub(crate) use typed::{Typed, TypedNode, typed};
