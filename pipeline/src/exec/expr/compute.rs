//! The choice of a kernel for each operation of an expression, made once for all elements.

use millstream_element::{Dtype, TensorSpec};

use crate::exec::constants::tensors;
use crate::exec::value::Tensor;
use crate::graph::{Binary, ExprOp, Literal, Shaping};

use super::kernel::Kernel;
use super::{arithmetic, cast, pad, reduce, shaping, strings, text};

/// Returns the kernel that computes `op` for operands of the specs `given`.
///
/// # Errors
/// A text that states which part of the operation cannot be computed.
pub(crate) fn kernel(op: &ExprOp, given: &[&TensorSpec]) -> Result<Kernel, String> {
    let dtype = given.first().map_or(Dtype::I64, |first| first.dtype());
    let is_text = dtype.item_bytes().is_none();
    Ok(match op.clone() {
        ExprOp::Column(name) => return Err(format!("the component {name:?} is not computed")),
        ExprOp::Literal(literal) => {
            let value = constant(&literal)?;
            Box::new(move |_| Ok(value.clone()))
        }
        ExprOp::Unary(unary) => Box::new(move |given| arithmetic::unary(unary, given[0])),
        ExprOp::Binary(binary) if is_text => {
            Box::new(move |given| strings::binary(binary, given[0], given[1]))
        }
        ExprOp::Binary(Binary::Div) => Box::new(|given| arithmetic::quotient(given[0], given[1])),
        ExprOp::Binary(binary) => Box::new(move |given| arithmetic::binary(binary, given[0], given[1])),
        ExprOp::Where => Box::new(|given| arithmetic::chosen(given[0], given[1], given[2])),
        ExprOp::Clip => Box::new(|given| arithmetic::clipped(given[0], given[1], given[2])),
        ExprOp::Cast(to) => Box::new(move |given| cast::cast(given[0], to.dtype.0, to.saturate)),
        ExprOp::Shaping(shaping) => of_shapes(shaping),
        ExprOp::Reduce(reduce) => Box::new(move |given| reduce::reduced(given[0], &reduce)),
        ExprOp::Text(of) => text::kernel(&of, dtype)?,
    })
}

fn of_shapes(shaping: Shaping) -> Kernel {
    match shaping {
        Shaping::Len => Box::new(|given| shaping::length(given[0])),
        Shaping::Shape => Box::new(|given| shaping::shape(given[0])),
        Shaping::Concat(axis) => Box::new(move |given| shaping::concatenated(given, axis)),
        Shaping::Stack(axis) => Box::new(move |given| shaping::stacked(given, axis)),
        Shaping::Slice(spans) => Box::new(move |given| shaping::sliced(given[0], &spans)),
        Shaping::Gather(axis) => Box::new(move |given| shaping::gathered(given[0], given[1], axis)),
        Shaping::Reshape(dims) => Box::new(move |given| shaping::reshaped(given[0], &dims)),
        Shaping::ExpandDims(axis) => Box::new(move |given| shaping::expanded(given[0], axis)),
        Shaping::Squeeze(axes) => Box::new(move |given| shaping::squeezed(given[0], &axes)),
        Shaping::Transpose(axes) => Box::new(move |given| shaping::transposed(given[0], &axes)),
        Shaping::Pad(pads) => Box::new(move |given| pad::padded(given[0], given[1], &pads)),
        Shaping::PadTo(to) => Box::new(move |given| pad::padded_to(given[0], given[1], to)),
        Shaping::OneHot(one_hot) => Box::new(move |given| shaping::one_hot(given[0], one_hot)),
        Shaping::BroadcastTo(dims) => Box::new(move |given| shaping::broadcast_to(given[0], &dims)),
        Shaping::DecodeRaw(raw) => Box::new(move |given| shaping::decoded_raw(given[0], raw)),
    }
}

fn constant(literal: &Literal) -> Result<Tensor, String> {
    let Literal::Tensor(tensor) = literal else {
        return Err("a constant has no dtype".to_owned());
    };
    let tensors = tensors(&tensor.constant()?)?;
    let first = tensors
        .into_iter()
        .next()
        .ok_or_else(|| "a constant has no items".to_owned())?;
    // A constant is used for every element, so it is stored in the smallest form.
    super::items::settled(&first)
}
