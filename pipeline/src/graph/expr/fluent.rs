//! The fluent way to write expressions: components, constants, operators, reductions. Shapes and text have
//! files of their own.

use std::ops;

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::literal::{Literal, Tensor};
use super::op::{Binary, Cast, ExprOp, Reduce, Reduction, Shaping, Unary};
use crate::graph::constant::ConstantTensor;

/// The component `name`; with an empty name the only component of an element.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::of(ExprOp::Column(name.into()), [])
}

/// A constant: a number, a truth or text. Numbers take the dtype of what they meet; by themselves whole ones
/// are `i64`, others `f64`.
pub fn lit(value: impl Into<Expr>) -> Expr {
    value.into()
}

/// The tensors one behind the other along `axis`, in which alone they may differ.
pub fn concat(exprs: impl IntoIterator<Item = Expr>, axis: i64) -> Expr {
    Expr::of(ExprOp::Shaping(Shaping::Concat(axis)), exprs)
}

/// Tensors of one shape side by side along a new axis, which comes to stand at `axis`.
pub fn stack(exprs: impl IntoIterator<Item = Expr>, axis: i64) -> Expr {
    Expr::of(ExprOp::Shaping(Shaping::Stack(axis)), exprs)
}

impl Expr {
    /// A constant tensor.
    pub fn tensor(dtype: Dtype, dims: &[u64], data: ConstantTensor) -> Expr {
        let tensor = Tensor {
            dtype: DtypeField(dtype),
            dims: dims.to_vec(),
            data,
        };
        Expr::of(ExprOp::Literal(Literal::Tensor(tensor)), [])
    }

    /// `|self|`.
    #[must_use]
    pub fn abs(self) -> Expr {
        self.unary(Unary::Abs)
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(self) -> Expr {
        self.unary(Unary::Sign)
    }

    /// Rounded down, of floats.
    #[must_use]
    pub fn floor(self) -> Expr {
        self.unary(Unary::Floor)
    }

    /// Rounded up, of floats.
    #[must_use]
    pub fn ceil(self) -> Expr {
        self.unary(Unary::Ceil)
    }

    /// Rounded to the nearest, of two to the even one, of floats.
    #[must_use]
    pub fn round(self) -> Expr {
        self.unary(Unary::Round)
    }

    /// The square root, of floats.
    #[must_use]
    pub fn sqrt(self) -> Expr {
        self.unary(Unary::Sqrt)
    }

    /// e to the power, of floats.
    #[must_use]
    pub fn exp(self) -> Expr {
        self.unary(Unary::Exp)
    }

    /// The natural logarithm, of floats.
    #[must_use]
    pub fn log(self) -> Expr {
        self.unary(Unary::Log)
    }

    /// The hyperbolic tangent, of floats.
    #[must_use]
    pub fn tanh(self) -> Expr {
        self.unary(Unary::Tanh)
    }

    /// Returns whether it is NaN, of floats.
    #[must_use]
    pub fn is_nan(self) -> Expr {
        self.unary(Unary::IsNan)
    }

    /// Returns whether it is neither infinite nor NaN, of floats.
    #[must_use]
    pub fn is_finite(self) -> Expr {
        self.unary(Unary::IsFinite)
    }

    /// The quotient rounded down, as `//` in Python. An integer divided by 0 is an error of the element.
    #[must_use]
    pub fn floor_div(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::FloorDiv, other)
    }

    /// The power. Integers take no negative exponents: such an element is an error.
    #[must_use]
    pub fn pow(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Pow, other)
    }

    /// The smaller of both, item by item.
    #[must_use]
    pub fn minimum(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Min, other)
    }

    /// The larger of both, item by item.
    #[must_use]
    pub fn maximum(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Max, other)
    }

    /// Returns whether both are equal, item by item; strings too.
    #[must_use]
    pub fn eq(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Eq, other)
    }

    /// Returns whether both differ, item by item; strings too.
    #[must_use]
    pub fn ne(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Ne, other)
    }

    /// Returns whether it is less than the other.
    #[must_use]
    pub fn lt(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Lt, other)
    }

    /// Returns whether it is at most the other.
    #[must_use]
    pub fn le(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Le, other)
    }

    /// Returns whether it is more than the other.
    #[must_use]
    pub fn gt(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Gt, other)
    }

    /// Returns whether it is at least the other.
    #[must_use]
    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        self.binary(Binary::Ge, other)
    }

    /// Chooses by truths: items of `yes` where they hold, else of `no`, as `tf.where`.
    #[must_use]
    pub fn if_else(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::of(ExprOp::Where, [self, yes.into(), no.into()])
    }

    /// At least `low` and at most `high`, which wins where it is the smaller one.
    #[must_use]
    pub fn clip(self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        Expr::of(ExprOp::Clip, [self, low.into(), high.into()])
    }

    /// Items of another dtype. Floats lose their fraction and become the nearest integer there is, NaN
    /// becomes 0; integers that do not fit wrap around, as with NumPy and TensorFlow; truths are 0 and 1, and
    /// what is not 0 is true; complex numbers lose their imaginary part. Strings become byte strings; byte
    /// strings that are not UTF-8 make no strings.
    #[must_use]
    pub fn cast(self, dtype: Dtype) -> Expr {
        self.converted(dtype, false)
    }

    /// Casts as [`Expr::cast`] does, but replaces integers that do not fit by the nearest that do, as
    /// `tf.saturate_cast` does.
    #[must_use]
    pub fn saturating_cast(self, dtype: Dtype) -> Expr {
        self.converted(dtype, true)
    }

    /// The sum along `axes`, or of all without any. `keep_dims` keeps these axes, of one item each.
    #[must_use]
    pub fn sum(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Sum, axes, keep_dims)
    }

    /// The mean of floats along `axes`, or of all without any.
    #[must_use]
    pub fn mean(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Mean, axes, keep_dims)
    }

    /// The largest item along `axes`, or of all without any; NaN if one is.
    #[must_use]
    pub fn max(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Max, axes, keep_dims)
    }

    /// The smallest item along `axes`, or of all without any; NaN if one is.
    #[must_use]
    pub fn min(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Min, axes, keep_dims)
    }

    /// Returns whether an item holds along `axes`, or any at all.
    #[must_use]
    pub fn any(self, axes: impl IntoIterator<Item = i64>, keep_dims: bool) -> Expr {
        self.reduced(Reduction::Any, axes, keep_dims)
    }

    /// Returns whether all items hold along `axes`, or all there are.
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
        // A plain number stays one, and so takes the dtype of what it meets.
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
