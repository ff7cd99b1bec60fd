//! Functions and methods that build expressions: components, constants, operators and reductions. Methods for
//! shapes and text have files of their own.

use std::ops;

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::literal::{Literal, Tensor};
use super::op::{Binary, Cast, ExprOp, Reduce, Reduction, Shaping, Unary};
use crate::graph::constant::ConstantTensor;

/// Reads the component `name`. The empty name means the only component of an element.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::of(ExprOp::Column(name.into()), [])
}

/// Makes a constant from a number, boolean or text. A number takes the dtype of the other operands. Without
/// other operands, an integer becomes `i64`, and a floating-point number becomes `f64`.
pub fn lit(value: impl Into<Expr>) -> Expr {
    value.into()
}

/// Concatenates tensors along `axis`. The tensors may differ only in the length of this axis.
pub fn concat(exprs: impl IntoIterator<Item = Expr>, axis: i64) -> Expr {
    Expr::of(ExprOp::Shaping(Shaping::Concat(axis)), exprs)
}

/// Stacks tensors of the same shape along a new axis at `axis`.
pub fn stack(exprs: impl IntoIterator<Item = Expr>, axis: i64) -> Expr {
    Expr::of(ExprOp::Shaping(Shaping::Stack(axis)), exprs)
}

impl Expr {
    /// Makes a constant tensor.
    pub fn tensor(dtype: Dtype, dims: &[u64], data: ConstantTensor) -> Expr {
        let tensor = Tensor {
            dtype: DtypeField(dtype),
            dims: dims.to_vec(),
            data,
        };
        Expr::of(ExprOp::Literal(Literal::Tensor(tensor)), [])
    }

    /// Returns the absolute value of each item.
    #[must_use]
    pub fn abs(self) -> Expr {
        self.unary(Unary::Abs)
    }

    /// Returns the sign of each item: -1, 0 or 1.
    #[must_use]
    pub fn sign(self) -> Expr {
        self.unary(Unary::Sign)
    }

    /// Rounds floats down.
    #[must_use]
    pub fn floor(self) -> Expr {
        self.unary(Unary::Floor)
    }

    /// Rounds floats up.
    #[must_use]
    pub fn ceil(self) -> Expr {
        self.unary(Unary::Ceil)
    }

    /// Rounds floats to the nearest whole number, and ties to the even number.
    #[must_use]
    pub fn round(self) -> Expr {
        self.unary(Unary::Round)
    }

    /// Returns the square roots of floats.
    #[must_use]
    pub fn sqrt(self) -> Expr {
        self.unary(Unary::Sqrt)
    }

    /// Returns e to the power of each float.
    #[must_use]
    pub fn exp(self) -> Expr {
        self.unary(Unary::Exp)
    }

    /// Returns the natural logarithms of floats.
    #[must_use]
    pub fn log(self) -> Expr {
        self.unary(Unary::Log)
    }

    /// Returns the hyperbolic tangents of floats.
    #[must_use]
    pub fn tanh(self) -> Expr {
        self.unary(Unary::Tanh)
    }

    /// Returns whether each float is NaN.
    #[must_use]
    pub fn is_nan(self) -> Expr {
        self.unary(Unary::IsNan)
    }

    /// Returns whether each float is neither infinite nor NaN.
    #[must_use]
    pub fn is_finite(self) -> Expr {
        self.unary(Unary::IsFinite)
    }

    /// Returns the quotient rounded down, as `//` in Python. Division of an integer by 0 is an error of the
    /// element.
    #[must_use]
    pub fn floor_div(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::FloorDiv, other)
    }

    /// Returns the power of each item. A negative exponent of an integer is an error of the element.
    #[must_use]
    pub fn pow(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Pow, other)
    }

    /// Returns the smaller of the two operands, item by item.
    #[must_use]
    pub fn minimum(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Min, other)
    }

    /// Returns the larger of the two operands, item by item.
    #[must_use]
    pub fn maximum(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Max, other)
    }

    /// Returns whether the two operands are equal, item by item. Strings can be compared too.
    #[must_use]
    pub fn eq(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Eq, other)
    }

    /// Returns whether the two operands differ, item by item. Strings can be compared too.
    #[must_use]
    pub fn ne(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Ne, other)
    }

    /// Returns whether each item is less than `other`.
    #[must_use]
    pub fn lt(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Lt, other)
    }

    /// Returns whether each item is less than or equal to `other`.
    #[must_use]
    pub fn le(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Le, other)
    }

    /// Returns whether each item is greater than `other`.
    #[must_use]
    pub fn gt(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Gt, other)
    }

    /// Returns whether each item is greater than or equal to `other`.
    #[must_use]
    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Ge, other)
    }

    /// Chooses item by item: from `yes` for a true item, from `no` for a false item, as `tf.where`.
    #[must_use]
    pub fn if_else(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::of(ExprOp::Where, [self, yes.into(), no.into()])
    }

    /// Limits each item to the range from `low` to `high`. If `high` is smaller than `low`, the result is
    /// `high`.
    #[must_use]
    pub fn clip(self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        Expr::of(ExprOp::Clip, [self, low.into(), high.into()])
    }

    /// Converts the items to another dtype.
    ///
    /// - Floats become the nearest representable integer towards 0, and NaN becomes 0.
    /// - Integers that do not fit wrap around, as in NumPy and TensorFlow.
    /// - Booleans become 0 or 1, and every number except 0 becomes true.
    /// - Complex numbers lose their imaginary part.
    /// - Strings become byte strings. Byte strings become strings if they are valid UTF-8; otherwise the
    ///   conversion is an error.
    #[must_use]
    pub fn cast(self, dtype: Dtype) -> Expr {
        self.converted(dtype, false)
    }

    /// Casts as [`Expr::cast`], but replaces an integer that does not fit by the nearest integer that fits,
    /// as `tf.saturate_cast`.
    #[must_use]
    pub fn saturating_cast(self, dtype: Dtype) -> Expr {
        self.converted(dtype, true)
    }

    /// Returns the sum along `axes`, or of all items if `axes` is empty. `keep_dims` keeps the reduced axes
    /// with one item each.
    #[must_use]
    pub fn sum(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Sum, axes, keep_dims)
    }

    /// Returns the mean of floats along `axes`, or of all items if `axes` is empty.
    #[must_use]
    pub fn mean(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Mean, axes, keep_dims)
    }

    /// Returns the largest item along `axes`, or of all items if `axes` is empty. If any item is NaN, the
    /// result is NaN.
    #[must_use]
    pub fn max(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Max, axes, keep_dims)
    }

    /// Returns the smallest item along `axes`, or of all items if `axes` is empty. If any item is NaN, the
    /// result is NaN.
    #[must_use]
    pub fn min(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Min, axes, keep_dims)
    }

    /// Returns whether any item along `axes` is true; an empty `axes` covers all items.
    #[must_use]
    pub fn any(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Any, axes, keep_dims)
    }

    /// Returns whether all items along `axes` are true; an empty `axes` covers all items.
    #[must_use]
    pub fn all(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::All, axes, keep_dims)
    }

    fn unary(self, op: Unary) -> Expr {
        Expr::of(ExprOp::Unary(op), [self])
    }

    fn binary(self, op: Binary, other: impl Into<Expr>) -> Expr {
        Expr::of(ExprOp::Binary(op), [self, other.into()])
    }

    fn converted(self, dtype: Dtype, saturate: bool) -> Expr {
        let dtype = DtypeField(dtype);
        Expr::of(ExprOp::Cast(Cast { dtype, saturate }), [self])
    }

    fn reduced(self, kind: Reduction, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        let axes = axes.into_iter().collect();
        Expr::of(
            ExprOp::Reduce(Reduce {
                kind,
                axes,
                keep_dims,
            }),
            [self],
        )
    }
}

macro_rules! operators {
    ($($trait:ident :: $method:ident = $op:ident,)*) => { $(
        impl<R: Into<Expr>> ops::$trait<R> for Expr {
            type Output = Expr;

            fn $method(self, other: R) -> Expr {
                self.binary(Binary::$op, other)
            }
        }
    )* };
}

operators! {
    Add::add = Add,
    Sub::sub = Sub,
    Mul::mul = Mul,
    Div::div = Div,
    Rem::rem = Mod,
    BitAnd::bitand = And,
    BitOr::bitor = Or,
    BitXor::bitxor = Xor,
}

impl ops::Neg for Expr {
    type Output = Expr;

    fn neg(mut self) -> Expr {
        // A plain number stays a plain number, so that it still takes the dtype of the other operands.
        match self.literal_mut() {
            Some(Literal::Int(value)) if *value != i64::MIN => *value = -*value,
            Some(Literal::Float(value)) => *value = -*value,
            Some(Literal::Int(_) | Literal::Bool(_) | Literal::Text(_) | Literal::Tensor(_)) | None => {
                return self.unary(Unary::Neg);
            }
        }
        self
    }
}

impl ops::Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        self.unary(Unary::Not)
    }
}

macro_rules! plain {
    ($($from:ty => |$value:ident| $literal:expr,)*) => { $(
        impl From<$from> for Expr {
            fn from($value: $from) -> Expr {
                Expr::of(ExprOp::Literal($literal), [])
            }
        }
    )* };
}

plain! {
    i32 => |value| Literal::Int(value.into()),
    i64 => |value| Literal::Int(value),
    f64 => |value| Literal::Float(value),
    f32 => |value| Literal::Float(value.into()),
    bool => |value| Literal::Bool(value),
    &str => |value| Literal::Text(value.to_owned()),
    String => |value| Literal::Text(value),
}
