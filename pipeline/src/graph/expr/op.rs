//! The operations of expressions: numbers, shapes and reductions. Text has a file of its own.
//!
//! Numbers of variants and fields are their identity on the wire and are never reused.

use millstream_element::MAX_RANK;
use minicbor::{Decode, Encode};

use super::dtype_field::DtypeField;
use super::literal::Literal;
use super::text_op::Text;

/// Operands that `concat` and `stack` take.
const OPERANDS_MAX: usize = 256;

/// One operation of an expression.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum ExprOp {
    /// The component of this name; the empty name is that of the only component.
    #[n(0)]
    Column(#[n(0)] String),
    /// A constant.
    #[n(1)]
    Literal(#[n(0)] Literal),
    /// An operation on each item.
    #[n(2)]
    Unary(#[n(0)] Unary),
    /// An operation on the items of two tensors, side by side.
    #[n(3)]
    Binary(#[n(0)] Binary),
    /// Items of the second operand where the first is true, else of the third.
    #[n(4)]
    Where,
    /// Items of the first operand, at least those of the second and at most those of the third.
    #[n(5)]
    Clip,
    /// Another dtype.
    #[n(6)]
    Cast(#[n(0)] Cast),
    /// Other shapes.
    #[n(7)]
    Shaping(#[n(0)] Shaping),
    /// Fewer dimensions.
    #[n(8)]
    Reduce(#[n(0)] Reduce),
    /// An operation on strings.
    #[n(9)]
    Text(#[n(0)] Text),
}

/// Operations of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Unary {
    /// `-x`; of integers modulo 2^bits.
    #[n(0)]
    Neg,
    /// `|x|`; that of the least integer is itself.
    #[n(1)]
    Abs,
    /// -1, 0 or 1; NaN of NaN.
    #[n(2)]
    Sign,
    /// The largest whole number that is not larger.
    #[n(3)]
    Floor,
    /// The smallest whole number that is not smaller.
    #[n(4)]
    Ceil,
    /// The nearest whole number, of two the even one.
    #[n(5)]
    Round,
    /// The square root; NaN below 0.
    #[n(6)]
    Sqrt,
    /// e to the power.
    #[n(7)]
    Exp,
    /// The natural logarithm; NaN below 0.
    #[n(8)]
    Log,
    /// The other truth.
    #[n(9)]
    Not,
    /// Whether it is no number.
    #[n(10)]
    IsNan,
    /// Whether it is neither infinite nor NaN.
    #[n(11)]
    IsFinite,
    /// The hyperbolic tangent.
    #[n(12)]
    Tanh,
}

/// Operations of two items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Binary {
    /// The sum, of integers modulo 2^bits; of strings, one behind the other.
    #[n(0)]
    Add,
    /// The difference.
    #[n(1)]
    Sub,
    /// The product.
    #[n(2)]
    Mul,
    /// The quotient as a float: integers of 8 and 16 bits become `f32`, larger ones `f64`, as `tf.truediv`
    /// has it.
    #[n(3)]
    Div,
    /// The quotient, rounded down. An integer divided by 0 is an error.
    #[n(4)]
    FloorDiv,
    /// The remainder of floor division, with the sign of the divisor. An integer divided by 0 is an error.
    #[n(5)]
    Mod,
    /// The power. Integers take no negative exponents.
    #[n(6)]
    Pow,
    /// The smaller; NaN if either is.
    #[n(7)]
    Min,
    /// The larger; NaN if either is.
    #[n(8)]
    Max,
    /// Whether they are equal.
    #[n(9)]
    Eq,
    /// Whether they differ.
    #[n(10)]
    Ne,
    /// Whether the first is smaller.
    #[n(11)]
    Lt,
    /// Whether the first is not larger.
    #[n(12)]
    Le,
    /// Whether the first is larger.
    #[n(13)]
    Gt,
    /// Whether the first is not smaller.
    #[n(14)]
    Ge,
    /// Whether both hold.
    #[n(15)]
    And,
    /// Whether at least one holds.
    #[n(16)]
    Or,
    /// Whether exactly one holds.
    #[n(17)]
    Xor,
}

/// Parameters of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cast {
    /// The dtype that items become.
    #[n(0)]
    pub dtype: DtypeField,
    /// Whether integers that do not fit become the nearest that does, rather than wrap around.
    #[n(1)]
    pub saturate: bool,
}

/// Operations on shapes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Shaping {
    /// The leading dimension, as `i64`.
    #[n(0)]
    Len,
    /// All dimensions, as `i64[rank]`.
    #[n(1)]
    Shape,
    /// One behind the other along an axis.
    #[n(2)]
    Concat(#[n(0)] i64),
    /// Side by side along a new axis.
    #[n(3)]
    Stack(#[n(0)] i64),
    /// Parts along the leading axes.
    #[n(4)]
    Slice(#[n(0)] Vec<Span>),
    /// The slices along an axis that indices name.
    #[n(5)]
    Gather(#[n(0)] i64),
    /// Other dimensions for the same items; of one that is -1 as much as fits.
    #[n(6)]
    Reshape(#[n(0)] Vec<i64>),
    /// A new axis of one item.
    #[n(7)]
    ExpandDims(#[n(0)] i64),
    /// Without these axes, or without all, of one item.
    #[n(8)]
    Squeeze(#[n(0)] Vec<i64>),
    /// The axes in this order, or in the reverse one.
    #[n(9)]
    Transpose(#[n(0)] Vec<u64>),
    /// Padding with so many items of the second operand before and after each axis.
    #[n(10)]
    Pad(#[n(0)] Vec<(u64, u64)>),
    /// Padding with items of the second operand after an axis, up to a length.
    #[n(11)]
    PadTo(#[n(0)] PadTo),
    /// 1 at the index, 0 elsewhere, along a new last axis. An index outside gives zeros alone.
    #[n(12)]
    OneHot(#[n(0)] OneHot),
    /// Dimensions that the shape broadcasts to.
    #[n(13)]
    BroadcastTo(#[n(0)] Vec<u64>),
    /// The integers that the little-endian or big-endian bytes of a string are, along a new last axis.
    #[n(14)]
    DecodeRaw(#[n(0)] DecodeRaw),
}

/// Parameters of padding to a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PadTo {
    /// Along which axis.
    #[n(0)]
    pub axis: i64,
    /// The length that it becomes.
    #[n(1)]
    pub length: u64,
    /// Whether what is longer is cut; else it is an error.
    #[n(2)]
    pub truncate: bool,
}

/// Parameters of one-hot encoding.
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

/// Parameters of reading raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DecodeRaw {
    /// The dtype of the bytes.
    #[n(0)]
    pub dtype: DtypeField,
    /// Whether the most significant byte of an item comes first.
    #[n(1)]
    pub big_endian: bool,
}

/// The part that is taken along one axis. Negative places count from the end, as NumPy's do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Span {
    /// From one place up to, without, another, each `step`-th. Places outside are moved to the ends.
    #[n(0)]
    Range {
        /// The first; absent = the end from which the steps go.
        #[n(0)]
        start: Option<i64>,
        /// The bound that is not reached; absent = beyond the other end.
        #[n(1)]
        stop: Option<i64>,
        /// Never 0.
        #[n(2)]
        step: i64,
    },
    /// The item at one place; the axis goes.
    #[n(1)]
    At(#[n(0)] i64),
}

/// Parameters of a reduction.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Reduce {
    /// The kind of reduction.
    #[n(0)]
    pub kind: Reduction,
    /// Along which axes; empty = all.
    #[n(1)]
    pub axes: Vec<i64>,
    /// Whether these stay, of one item each.
    #[n(2)]
    pub keep_dims: bool,
}

/// The result of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reduction {
    /// Their sum; of integers modulo 2^bits; floats are added up as `f64`.
    #[n(0)]
    Sum,
    /// Their mean, of floats; NaN of none.
    #[n(1)]
    Mean,
    /// The largest; of none it is an error.
    #[n(2)]
    Max,
    /// The smallest; of none it is an error.
    #[n(3)]
    Min,
    /// Whether one holds.
    #[n(4)]
    Any,
    /// Whether all hold.
    #[n(5)]
    All,
}

impl ExprOp {
    /// The name in messages.
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

    /// The least and the most operands.
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

    /// Checks the parameters.
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
                        "has the dimensions {dims:?}: one may be -1, others are counts"
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
                    Err(format!(
                        "has the axes {axes:?}, which do not name each of them once"
                    ))
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
        return Err(format!("names {axes} axes, a tensor has at most {MAX_RANK}"));
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

    /// Returns whether it tells truths of items rather than making further ones.
    pub(crate) fn compares(self) -> bool {
        matches!(
            self,
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge
        )
    }

    /// Returns whether it is of truths.
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
