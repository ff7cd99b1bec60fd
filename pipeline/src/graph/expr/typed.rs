//! Type inference for expressions: dtypes, shapes, and the dtypes of plain numbers.

use millstream_element::{Dtype, ElementSpec, MAX_RANK, TensorSpec};

use super::column::column_of;
use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::kinds::{is_float, is_integer, is_number, is_signed, is_text, wants, with_dtype};
use super::literal::Literal;
use super::op::{Binary, Cast, ExprOp, Reduce, Reduction, Unary};
use super::shapes::{Known, axis_of, broadcast_all, tensor};
use super::shaping_spec::shaping_spec;
use super::text_spec::text_spec;

/// Expressions with a dtype and a shape for every operation. Shared operations are stored once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Typed {
    /// The operations in the order of their evaluation. Every constant is a tensor with a dtype.
    pub(crate) nodes: Vec<TypedNode>,
    /// The index of the result operation of each expression.
    pub(crate) results: Vec<usize>,
}

/// One operation, its operands and the spec of its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TypedNode {
    pub(crate) op: ExprOp,
    pub(crate) args: Vec<usize>,
    pub(crate) spec: TensorSpec,
}

/// The result of typing one operation of an expression.
#[derive(Debug, Clone)]
enum Meaning {
    /// A plain number whose dtype is not chosen yet.
    Plain(Literal),
    Node(usize),
}

/// Infers the types of the expressions for elements of `input`.
///
/// # Errors
/// The reason, as text, which names the operation and the specs of its operands.
pub(crate) fn typed<'e>(
    exprs: impl IntoIterator<Item = &'e Expr>,
    input: &ElementSpec,
) -> Result<Typed, String> {
    let mut all = Typed::default();
    for expr in exprs {
        expr.check()?;
        let mut meanings: Vec<Meaning> = Vec::with_capacity(expr.nodes().len());
        for node in expr.nodes() {
            let args = node.args.iter().map(|arg| meanings[*arg as usize].clone());
            let args: Vec<Meaning> = args.collect();
            meanings.push(
                if let ExprOp::Literal(literal) = &node.op
                    && literal.is_plain()
                {
                    Meaning::Plain(literal.clone())
                } else {
                    Meaning::Node(all.add(&node.op, args, input)?)
                },
            );
        }
        let last = meanings
            .pop()
            .ok_or_else(|| "has an empty expression".to_owned())?;
        let result = all.settle(last, None)?;
        all.results.push(result);
    }
    Ok(all)
}

impl Typed {
    /// Returns the spec of the result of the expression at `index`.
    pub(crate) fn spec(&self, index: usize) -> &TensorSpec {
        &self.nodes[self.results[index]].spec
    }

    /// Adds the operation `op` on `args`, after choosing the dtypes of plain numbers.
    fn add(&mut self, op: &ExprOp, args: Vec<Meaning>, input: &ElementSpec) -> Result<usize, String> {
        let name = op.name();
        let alike = alike(op);
        let common = self.common_dtype(name, &args, alike.clone())?;
        let mut places = Vec::with_capacity(args.len());
        for (index, arg) in args.into_iter().enumerate() {
            let wanted = if alike.contains(&index) { common } else { None };
            let place = self
                .settle(arg, wanted)
                .map_err(|reason| format!("`{name}`: {reason}"))?;
            places.push(place);
        }
        if let ExprOp::Binary(Binary::Div) = op
            && let Some(quotient) = common.and_then(quotient_dtype)
        {
            for place in &mut places {
                let cast = Cast {
                    dtype: DtypeField(quotient),
                    saturate: false,
                };
                *place = self.push(ExprOp::Cast(cast), vec![*place], input)?;
            }
        }
        self.push(op.clone(), places, input)
    }

    /// Returns the common dtype of the operands that must have the same dtype. Plain numbers adapt to the
    /// other operands.
    fn common_dtype(
        &self,
        name: &str,
        args: &[Meaning],
        alike: std::ops::Range<usize>,
    ) -> Result<Option<Dtype>, String> {
        let mut common: Option<Dtype> = None;
        let mut by_itself: Option<Dtype> = None;
        for arg in args
            .get(alike.start..alike.end.min(args.len()))
            .unwrap_or_default()
        {
            match arg {
                Meaning::Node(place) => {
                    let dtype = self.nodes[*place].spec.dtype();
                    match common {
                        Some(known) if known != dtype => {
                            return Err(format!(
                                "`{name}` of {known} and {dtype}: expected operands of the same dtype, cast one of them"
                            ));
                        }
                        Some(_) | None => common = Some(dtype),
                    }
                }
                // If any plain number is a float, all plain numbers become floats.
                Meaning::Plain(Literal::Int(_)) if by_itself.is_some() => {}
                Meaning::Plain(literal) => by_itself = Some(literal.dtype()),
            }
        }
        Ok(common.or(by_itself))
    }

    /// Returns the node for `meaning`. A plain number takes the dtype `wanted`, or its default dtype.
    fn settle(&mut self, meaning: Meaning, wanted: Option<Dtype>) -> Result<usize, String> {
        match meaning {
            Meaning::Node(place) => Ok(place),
            Meaning::Plain(literal) => {
                let tensor = literal.of(wanted.unwrap_or_else(|| literal.dtype()))?;
                let spec = tensor.spec();
                Ok(self.place(TypedNode {
                    op: ExprOp::Literal(Literal::Tensor(tensor)),
                    args: Vec::new(),
                    spec,
                }))
            }
        }
    }

    fn push(&mut self, op: ExprOp, args: Vec<usize>, input: &ElementSpec) -> Result<usize, String> {
        let given: Vec<&TensorSpec> = args.iter().map(|arg| &self.nodes[*arg].spec).collect();
        let described = || {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            format!("`{}` of {}", op.name(), given.join(" and "))
        };
        let spec = spec_of(&op, &given, input).map_err(|reason| {
            if let ExprOp::Column(_) = op {
                reason
            } else {
                format!("{}: {reason}", described())
            }
        })?;
        if spec.dims().is_some_and(|dims| dims.len() > MAX_RANK) {
            return Err(format!(
                "{}: the result has more dimensions than the limit of {MAX_RANK}",
                described()
            ));
        }
        Ok(self.place(TypedNode { op, args, spec }))
    }

    fn place(&mut self, node: TypedNode) -> usize {
        self.nodes
            .iter()
            .position(|known| *known == node)
            .unwrap_or_else(|| {
                self.nodes.push(node);
                self.nodes.len() - 1
            })
    }
}

/// Returns the operands that must have the same dtype.
fn alike(op: &ExprOp) -> std::ops::Range<usize> {
    use super::op::Shaping;
    match op {
        ExprOp::Where => 1..3,
        ExprOp::Binary(_) | ExprOp::Clip => 0..3,
        ExprOp::Shaping(Shaping::Concat(_) | Shaping::Stack(_) | Shaping::Pad(_) | Shaping::PadTo(_)) => {
            0..usize::MAX
        }
        ExprOp::Text(super::text_op::Text::Join(_)) => 0..usize::MAX,
        ExprOp::Column(_)
        | ExprOp::Literal(_)
        | ExprOp::Unary(_)
        | ExprOp::Cast(_)
        | ExprOp::Shaping(_)
        | ExprOp::Reduce(_)
        | ExprOp::Text(_) => 0..0,
    }
}

/// Returns the dtype of the quotient of two integers; `None` for other dtypes.
fn quotient_dtype(dtype: Dtype) -> Option<Dtype> {
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::U8 | Dtype::U16 => Some(Dtype::F32),
        Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => Some(Dtype::F64),
        Dtype::Bool
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::F32
        | Dtype::F64
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => None,
    }
}

fn spec_of(op: &ExprOp, given: &[&TensorSpec], input: &ElementSpec) -> Result<TensorSpec, String> {
    let first = || {
        given
            .first()
            .copied()
            .ok_or_else(|| "expected an operand, found none".to_owned())
    };
    match op {
        ExprOp::Column(name) => Ok(input.components()[column_of(name, input)?].clone()),
        ExprOp::Literal(literal) => literal.of(literal.dtype()).map(|tensor| tensor.spec()),
        ExprOp::Unary(unary) => unary_spec(*unary, first()?),
        ExprOp::Binary(binary) => {
            let dtype = binary_dtype(*binary, first()?.dtype())?;
            Ok(tensor(dtype, broadcast_all(given)?))
        }
        ExprOp::Where => {
            wants(first()?.dtype() == Dtype::Bool, "expected a condition of bool")?;
            let yes = given.get(1).map_or(Dtype::Bool, |yes| yes.dtype());
            Ok(tensor(yes, broadcast_all(given)?))
        }
        ExprOp::Clip => {
            wants(is_number(first()?.dtype()), "expected numbers")?;
            Ok(tensor(first()?.dtype(), broadcast_all(given)?))
        }
        ExprOp::Cast(cast) => {
            castable(first()?.dtype(), cast.dtype.0)?;
            Ok(with_dtype(first()?, cast.dtype.0))
        }
        ExprOp::Shaping(shaping) => shaping_spec(shaping, given),
        ExprOp::Reduce(reduce) => reduced_spec(reduce, first()?),
        ExprOp::Text(text) => text_spec(text, given),
    }
}

fn castable(from: Dtype, to: Dtype) -> Result<(), String> {
    match (is_text(from), is_text(to)) {
        (true, true) | (false, false) => Ok(()),
        (false, true) => Err("a number cannot be cast to text, use .to_text()".to_owned()),
        (true, false) => Err("text cannot be cast to a number, use .to_number(dtype)".to_owned()),
    }
}

fn unary_spec(unary: Unary, of: &TensorSpec) -> Result<TensorSpec, String> {
    let dtype = of.dtype();
    match unary {
        Unary::Neg | Unary::Abs | Unary::Sign => {
            let unsigned = is_integer(dtype) && !is_signed(dtype) && unary == Unary::Neg;
            wants(
                is_number(dtype) && !unsigned,
                "expected signed numbers, cast them first",
            )?;
            Ok(of.clone())
        }
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sqrt | Unary::Exp | Unary::Log | Unary::Tanh => {
            wants(
                is_float(dtype),
                "expected floats (f16, bf16, f32, f64), cast them first",
            )?;
            Ok(of.clone())
        }
        Unary::Not => {
            wants(dtype == Dtype::Bool, "expected bool")?;
            Ok(of.clone())
        }
        Unary::IsNan | Unary::IsFinite => {
            wants(
                is_float(dtype),
                "expected floats (f16, bf16, f32, f64), cast them first",
            )?;
            Ok(with_dtype(of, Dtype::Bool))
        }
    }
}

fn binary_dtype(binary: Binary, of: Dtype) -> Result<Dtype, String> {
    if binary.is_logical() {
        wants(
            of == Dtype::Bool,
            "expected bool: compare first, as in col(\"x\").ne(0)",
        )?;
        return Ok(of);
    }
    let equality = matches!(binary, Binary::Eq | Binary::Ne);
    if binary.compares() {
        let comparable = is_number(of) || (equality && (is_text(of) || of == Dtype::Bool));
        wants(
            comparable,
            "items of that dtype cannot be compared, cast them first",
        )?;
        return Ok(Dtype::Bool);
    }
    if binary == Binary::Add && is_text(of) {
        return Ok(of);
    }
    wants(is_number(of), "expected integers or floats, cast them first")?;
    Ok(of)
}

fn reduced_spec(reduce: &Reduce, of: &TensorSpec) -> Result<TensorSpec, String> {
    let dtype = of.dtype();
    match reduce.kind {
        Reduction::Sum | Reduction::Max | Reduction::Min => {
            wants(
                is_number(dtype),
                "expected integers or floats, cast other dtypes first, bool too",
            )?;
        }
        Reduction::Mean => wants(
            is_float(dtype),
            "expected floats (f16, bf16, f32, f64), cast them first",
        )?,
        Reduction::Any | Reduction::All => wants(dtype == Dtype::Bool, "expected bool, compare first")?,
    }
    let Some(dims) = of.dims() else {
        let all = reduce.axes.is_empty() && !reduce.keep_dims;
        return Ok(tensor(dtype, all.then(Vec::new)));
    };
    let axes = reduce.axes.iter().map(|axis| axis_of(*axis, dims.len()));
    let axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
    let is_reduced = |axis: usize| axes.is_empty() || axes.contains(&axis);
    let left = dims.iter().enumerate();
    let left: Known = left
        .filter_map(|(axis, dim)| match (is_reduced(axis), reduce.keep_dims) {
            (false, _) => Some(*dim),
            (true, true) => Some(Some(1)),
            (true, false) => None,
        })
        .collect();
    Ok(tensor(dtype, Some(left)))
}
