//! The operations of expressions on numbers, shapes and reductions. Operations on text have a file of their
//! own.
//!
//! The numbers of variants and fields identify them on the wire, and are never reused.

use millstream_element::MAX_RANK;
use minicbor::{Decode, Encode};

use super::dtype_field::DtypeField;
use super::literal::Literal;
use super::text_op::Text;

/// The maximum number of operands of `concat` and `stack`.
const OPERANDS_MAX: usize = 256;

/// One operation of an expression.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum ExprOp {
    /// Reads the component with this name; the empty name means the only component.
    #[n(0)]
    Column(#[n(0)] String),
    /// Yields a constant.
    #[n(1)]
    Literal(#[n(0)] Literal),
    /// Computes each item of one tensor.
    #[n(2)]
    Unary(#[n(0)] Unary),
    /// Combines two tensors item by item.
    #[n(3)]
    Binary(#[n(0)] Binary),
    /// Takes items from the second operand where the first operand is true, otherwise from the third.
    #[n(4)]
    Where,
    /// Limits the items of the first operand to the range from the second operand to the third.
    #[n(5)]
    Clip,
    /// Converts the items to another dtype.
    #[n(6)]
    Cast(#[n(0)] Cast),
    /// Changes the shape, or reads dimensions.
    #[n(7)]
    Shaping(#[n(0)] Shaping),
    /// Reduces dimensions.
    #[n(8)]
    Reduce(#[n(0)] Reduce),
    /// Computes on strings.
    #[n(9)]
    Text(#[n(0)] Text),
}

/// An operation on each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Unary {
    /// Returns `-x`; integers wrap around modulo 2^bits.
    #[n(0)]
    Neg,
    /// Returns `|x|`; the smallest integer stays negative because its absolute value does not fit.
    #[n(1)]
    Abs,
    /// Returns -1, 0 or 1; the sign of NaN is NaN.
    #[n(2)]
    Sign,
    /// Returns the largest whole number that is at most the item.
    #[n(3)]
    Floor,
    /// Returns the smallest whole number that is at least the item.
    #[n(4)]
    Ceil,
    /// Returns the nearest whole number, and rounds ties to the even number.
    #[n(5)]
    Round,
    /// Returns the square root; NaN for numbers below 0.
    #[n(6)]
    Sqrt,
    /// Returns e to the power of the item.
    #[n(7)]
    Exp,
    /// Returns the natural logarithm; NaN for numbers below 0.
    #[n(8)]
    Log,
    /// Returns the logical negation.
    #[n(9)]
    Not,
    /// Returns whether the item is NaN.
    #[n(10)]
    IsNan,
    /// Returns whether the item is neither infinite nor NaN.
    #[n(11)]
    IsFinite,
    /// Returns the hyperbolic tangent.
    #[n(12)]
    Tanh,
}

/// An operation on two items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Binary {
    /// Returns the sum; integers wrap around modulo 2^bits, and strings are concatenated.
    #[n(0)]
    Add,
    /// Returns the difference.
    #[n(1)]
    Sub,
    /// Returns the product.
    #[n(2)]
    Mul,
    /// Returns the quotient as a float. Integers of 8 and 16 bits become `f32`, larger integers `f64`, as in
    /// `tf.truediv`.
    #[n(3)]
    Div,
    /// Returns the quotient rounded down. Division of an integer by 0 is an error.
    #[n(4)]
    FloorDiv,
    /// Returns the remainder of floor division, with the sign of the divisor. Division of an integer by 0 is
    /// an error.
    #[n(5)]
    Mod,
    /// Returns the power. A negative exponent of an integer is an error.
    #[n(6)]
    Pow,
    /// Returns the smaller item; NaN if either item is NaN.
    #[n(7)]
    Min,
    /// Returns the larger item; NaN if either item is NaN.
    #[n(8)]
    Max,
    /// Returns whether the items are equal.
    #[n(9)]
    Eq,
    /// Returns whether the items differ.
    #[n(10)]
    Ne,
    /// Returns whether the first item is less than the second.
    #[n(11)]
    Lt,
    /// Returns whether the first item is less than or equal to the second.
    #[n(12)]
    Le,
    /// Returns whether the first item is greater than the second.
    #[n(13)]
    Gt,
    /// Returns whether the first item is greater than or equal to the second.
    #[n(14)]
    Ge,
    /// Returns whether both items are true.
    #[n(15)]
    And,
    /// Returns whether at least one item is true.
    #[n(16)]
    Or,
    /// Returns whether exactly one item is true.
    #[n(17)]
    Xor,
}

/// Parameters of a conversion between dtypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cast {
    /// The dtype of the result.
    #[n(0)]
    pub dtype: DtypeField,
    /// `true` if an integer that does not fit becomes the nearest integer that fits. Otherwise the integer
    /// wraps around.
    #[n(1)]
    pub saturate: bool,
}

/// An operation that changes the shape of a tensor, or reads its dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Shaping {
    /// Returns the leading dimension as `i64`.
    #[n(0)]
    Len,
    /// Returns all dimensions as `i64[rank]`.
    #[n(1)]
    Shape,
    /// Concatenates tensors along an axis.
    #[n(2)]
    Concat(#[n(0)] i64),
    /// Stacks tensors along a new axis.
    #[n(3)]
    Stack(#[n(0)] i64),
    /// Slices the leading axes.
    #[n(4)]
    Slice(#[n(0)] Vec<Span>),
    /// Gathers the slices along an axis that the second operand, a tensor of indices, names.
    #[n(5)]
    Gather(#[n(0)] i64),
    /// Arranges the items in other dimensions. A dimension of -1 is computed from the number of items.
    #[n(6)]
    Reshape(#[n(0)] Vec<i64>),
    /// Inserts a new axis of one item.
    #[n(7)]
    ExpandDims(#[n(0)] i64),
    /// Removes these axes of one item; an empty list removes all axes of one item.
    #[n(8)]
    Squeeze(#[n(0)] Vec<i64>),
    /// Reorders the axes; an empty list reverses the order.
    #[n(9)]
    Transpose(#[n(0)] Vec<u64>),
    /// Pads each axis at its start and end with these numbers of items of the second operand.
    #[n(10)]
    Pad(#[n(0)] Vec<(u64, u64)>),
    /// Pads an axis at its end with items of the second operand, up to a length.
    #[n(11)]
    PadTo(#[n(0)] PadTo),
    /// Returns a vector for each integer along a new last axis, with 1 at the integer's index and 0
    /// elsewhere. An integer outside of the classes becomes a vector of zeros.
    #[n(12)]
    OneHot(#[n(0)] OneHot),
    /// Broadcasts a tensor to these dimensions.
    #[n(13)]
    BroadcastTo(#[n(0)] Vec<u64>),
    /// Reads the bytes of a string as little-endian or big-endian numbers, along a new last axis.
    #[n(14)]
    DecodeRaw(#[n(0)] DecodeRaw),
}

/// Parameters of `pad_to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PadTo {
    /// The axis to pad.
    #[n(0)]
    pub axis: i64,
    /// The length of the axis in the result.
    #[n(1)]
    pub length: u64,
    /// `true` if a longer axis is truncated; otherwise a longer axis is an error.
    #[n(2)]
    pub truncate: bool,
}

/// Parameters of `one_hot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OneHot {
    /// The number of classes.
    #[n(0)]
    pub depth: u64,
    /// The dtype of the result.
    #[n(1)]
    pub dtype: DtypeField,
}

/// Parameters of `decode_raw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DecodeRaw {
    /// The dtype of the numbers.
    #[n(0)]
    pub dtype: DtypeField,
    /// `true` if an item begins with its most significant byte.
    #[n(1)]
    pub big_endian: bool,
}

/// A slice along one axis. Negative indices count from the end, as in NumPy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Span {
    /// The items from one index up to another, which is excluded, at every `step`-th index. Indices outside
    /// of the axis are moved to its ends.
    #[n(0)]
    Range {
        /// The first index; `None` means the first item, or the last item for a negative step.
        #[n(0)]
        start: Option<i64>,
        /// The excluded end index; `None` means the end of the axis in the direction of the steps.
        #[n(1)]
        stop: Option<i64>,
        /// The distance between two indices, which is never 0.
        #[n(2)]
        step: i64,
    },
    /// The item at one index; the axis is removed.
    #[n(1)]
    At(#[n(0)] i64),
}

/// Parameters of a reduction along axes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Reduce {
    /// The kind of reduction.
    #[n(0)]
    pub kind: Reduction,
    /// The axes to reduce; an empty list means all axes.
    #[n(1)]
    pub axes: Vec<i64>,
    /// `true` if the reduced axes are kept with one item each.
    #[n(2)]
    pub keep_dims: bool,
}

/// The function that a reduction computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reduction {
    /// The sum; integers wrap around modulo 2^bits, and floats are added as `f64`.
    #[n(0)]
    Sum,
    /// The mean of floats; NaN if there are no items.
    #[n(1)]
    Mean,
    /// The largest item; the absence of items is an error.
    #[n(2)]
    Max,
    /// The smallest item; the absence of items is an error.
    #[n(3)]
    Min,
    /// The truth of at least one item.
    #[n(4)]
    Any,
    /// The truth of all items.
    #[n(5)]
    All,
}

impl ExprOp {
    /// Returns the name of the operation in messages.
    pub fn name(&self) -> &'static str {
        match self {
            ExprOp::Column(_) => "col",
            ExprOp::Literal(_) => "lit",
            ExprOp::Unary(unary) => unary.name(),
            ExprOp::Binary(binary) => binary.name(),
            ExprOp::Where => "if_else",
            ExprOp::Clip => "clip",
            ExprOp::Cast(cast) if cast.saturate => "saturating_cast",
            ExprOp::Cast(_) => "cast",
            ExprOp::Shaping(shaping) => shaping.name(),
            ExprOp::Reduce(reduce) => reduce.kind.name(),
            ExprOp::Text(text) => text.name(),
        }
    }

    /// Returns the minimum and the maximum number of operands.
    pub(crate) fn arity(&self) -> (usize, usize) {
        match self {
            ExprOp::Column(_) | ExprOp::Literal(_) => (0, 0),
            ExprOp::Unary(_) | ExprOp::Cast(_) | ExprOp::Reduce(_) => (1, 1),
            ExprOp::Binary(_) => (2, 2),
            ExprOp::Where | ExprOp::Clip => (3, 3),
            ExprOp::Shaping(shaping) => shaping.arity(),
            ExprOp::Text(text) => text.arity(),
        }
    }

    /// Checks the parameters, without knowledge of the operands.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            ExprOp::Literal(literal) => literal.check(),
            ExprOp::Shaping(shaping) => shaping.check(),
            ExprOp::Text(text) => text.check(),
            ExprOp::Reduce(reduce) => check_rank(reduce.axes.len()),
            ExprOp::Column(_)
            | ExprOp::Unary(_)
            | ExprOp::Binary(_)
            | ExprOp::Where
            | ExprOp::Clip
            | ExprOp::Cast(_) => Ok(()),
        }
    }
}

impl Shaping {
    fn name(&self) -> &'static str {
        match self {
            Shaping::Len => "len",
            Shaping::Shape => "shape",
            Shaping::Concat(_) => "concat",
            Shaping::Stack(_) => "stack",
            Shaping::Slice(_) => "slice",
            Shaping::Gather(_) => "gather",
            Shaping::Reshape(_) => "reshape",
            Shaping::ExpandDims(_) => "expand_dims",
            Shaping::Squeeze(_) => "squeeze",
            Shaping::Transpose(_) => "transpose",
            Shaping::Pad(_) => "pad",
            Shaping::PadTo(_) => "pad_to",
            Shaping::OneHot(_) => "one_hot",
            Shaping::BroadcastTo(_) => "broadcast_to",
            Shaping::DecodeRaw(_) => "decode_raw",
        }
    }

    fn arity(&self) -> (usize, usize) {
        match self {
            Shaping::Concat(_) | Shaping::Stack(_) => (1, OPERANDS_MAX),
            Shaping::Gather(_) | Shaping::Pad(_) | Shaping::PadTo(_) => (2, 2),
            Shaping::Len
            | Shaping::Shape
            | Shaping::Slice(_)
            | Shaping::Reshape(_)
            | Shaping::ExpandDims(_)
            | Shaping::Squeeze(_)
            | Shaping::Transpose(_)
            | Shaping::OneHot(_)
            | Shaping::BroadcastTo(_)
            | Shaping::DecodeRaw(_) => (1, 1),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Shaping::Slice(spans) => {
                check_rank(spans.len())?;
                let stands_still = |span: &&Span| matches!(span, Span::Range { step: 0, .. });
                match spans.iter().find(stands_still) {
                    Some(_) => Err("has a step of 0".to_owned()),
                    None => Ok(()),
                }
            }
            Shaping::Reshape(dims) => {
                check_rank(dims.len())?;
                if dims.iter().any(|dim| *dim < -1) || dims.iter().filter(|dim| **dim == -1).count() > 1 {
                    return Err(format!(
                        "has the dimensions {dims:?}, of which at most one may be -1 and the rest must not be negative"
                    ));
                }
                Ok(())
            }
            Shaping::Squeeze(axes) => check_rank(axes.len()),
            Shaping::Transpose(axes) => {
                check_rank(axes.len())?;
                let all = (0..axes.len() as u64).all(|axis| axes.contains(&axis));
                if all {
                    Ok(())
                } else {
                    Err(format!("has the axes {axes:?}, expected each axis exactly once"))
                }
            }
            Shaping::Pad(pads) => check_rank(pads.len()),
            Shaping::BroadcastTo(dims) => check_rank(dims.len()),
            Shaping::Len
            | Shaping::Shape
            | Shaping::Concat(_)
            | Shaping::Stack(_)
            | Shaping::Gather(_)
            | Shaping::ExpandDims(_)
            | Shaping::PadTo(_)
            | Shaping::OneHot(_)
            | Shaping::DecodeRaw(_) => Ok(()),
        }
    }
}

fn check_rank(axes: usize) -> Result<(), String> {
    if axes > MAX_RANK {
        return Err(format!("has {axes} axes, the limit is {MAX_RANK}"));
    }
    Ok(())
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Round => "round",
            Unary::Sqrt => "sqrt",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Not => "not",
            Unary::IsNan => "is_nan",
            Unary::IsFinite => "is_finite",
            Unary::Tanh => "tanh",
        }
    }
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::FloorDiv => "floor_div",
            Binary::Mod => "mod",
            Binary::Pow => "pow",
            Binary::Min => "minimum",
            Binary::Max => "maximum",
            Binary::Eq => "eq",
            Binary::Ne => "ne",
            Binary::Lt => "lt",
            Binary::Le => "le",
            Binary::Gt => "gt",
            Binary::Ge => "ge",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
        }
    }

    /// Returns whether the operation compares items, so that its result is boolean.
    pub(crate) fn compares(self) -> bool {
        matches!(
            self,
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge
        )
    }

    /// Returns whether the operands of the operation are booleans.
    pub(crate) fn is_logical(self) -> bool {
        matches!(self, Binary::And | Binary::Or | Binary::Xor)
    }
}

impl Reduction {
    fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Mean => "mean",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Any => "any",
            Reduction::All => "all",
        }
    }
}
