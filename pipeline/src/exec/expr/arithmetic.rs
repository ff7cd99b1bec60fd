//! Operations on each item of a tensor, and on pairs of items of several tensors.

use millstream_element::Dtype;

use crate::exec::value::{Dims, Tensor};
use crate::graph::{Binary, Unary};

use super::broadcast::Walk;
use super::items::{Item, built, bytes_of, items};
use super::number::{Float, Number, no_number, with_float, with_number};

/// Applies `unary` to each item.
pub(crate) fn unary(unary: Unary, of: &Tensor) -> Result<Tensor, String> {
    let dtype = of.dtype();
    let result = if matches!(unary, Unary::IsNan | Unary::IsFinite) {
        Dtype::Bool
    } else {
        dtype
    };
    let from = bytes_of(of)?;
    built(result, Dims::from_slice(of.dims()), |into| match unary {
        Unary::Neg | Unary::Abs | Unary::Sign => {
            with_number!(dtype, T => { signed::<T>(unary, from, into); Ok(()) }, Err(no_number(dtype)))
        }
        Unary::Not => {
            each(from, into, |truth: bool| !truth);
            Ok(())
        }
        Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sqrt
        | Unary::Exp
        | Unary::Log
        | Unary::Tanh
        | Unary::IsNan
        | Unary::IsFinite => {
            with_float!(dtype, T => { of_float::<T>(unary, from, into); Ok(()) }, Err(no_number(dtype)))
        }
    })
}

fn signed<T: Number>(unary: Unary, from: &[u8], into: &mut [u8]) {
    if unary == Unary::Neg {
        each(from, into, T::negative);
    } else if unary == Unary::Abs {
        each(from, into, T::magnitude);
    } else {
        each(from, into, T::sign);
    }
}

fn of_float<T: Float>(unary: Unary, from: &[u8], into: &mut [u8]) {
    match unary {
        Unary::Floor => each(from, into, |x: T| x.mapped(f32::floor, f64::floor)),
        Unary::Ceil => each(from, into, |x: T| x.mapped(f32::ceil, f64::ceil)),
        Unary::Round => each(from, into, |x: T| {
            x.mapped(f32::round_ties_even, f64::round_ties_even)
        }),
        Unary::Sqrt => each(from, into, |x: T| x.mapped(f32::sqrt, f64::sqrt)),
        Unary::Exp => each(from, into, |x: T| x.mapped(f32::exp, f64::exp)),
        Unary::Log => each(from, into, |x: T| x.mapped(f32::ln, f64::ln)),
        Unary::Tanh => each(from, into, |x: T| x.mapped(f32::tanh, f64::tanh)),
        Unary::IsNan => each(from, into, |x: T| x.wide().is_nan()),
        Unary::IsFinite | Unary::Neg | Unary::Abs | Unary::Sign | Unary::Not => {
            each(from, into, |x: T| x.wide().is_finite());
        }
    }
}

/// Applies `binary` to pairs of items of two tensors of one dtype.
pub(crate) fn binary(binary: Binary, one: &Tensor, other: &Tensor) -> Result<Tensor, String> {
    let dtype = one.dtype();
    let walk = Walk::new([one.dims(), other.dims()])?;
    let result = if binary.compares() { Dtype::Bool } else { dtype };
    let operands = [bytes_of(one)?, bytes_of(other)?];
    built(result, walk.dims.clone(), |into| {
        if dtype == Dtype::Bool {
            return truths(binary, &walk, operands, into);
        }
        with_number!(dtype, T => {
            if binary.compares() {
                compared::<T>(binary, &walk, operands, into)
            } else {
                calculated::<T>(binary, &walk, operands, into)
            }
        }, Err(no_number(dtype)))?;
        Ok(())
    })
}

fn truths(binary: Binary, walk: &Walk<2>, from: [&[u8]; 2], into: &mut [u8]) -> Result<(), String> {
    match binary {
        Binary::And => pairs(walk, from, into, |x: bool, y| Ok(x & y)),
        Binary::Or => pairs(walk, from, into, |x: bool, y| Ok(x | y)),
        Binary::Xor | Binary::Ne => pairs(walk, from, into, |x: bool, y| Ok(x ^ y)),
        Binary::Eq => pairs(walk, from, into, |x: bool, y| Ok(x == y)),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::FloorDiv
        | Binary::Mod
        | Binary::Pow
        | Binary::Min
        | Binary::Max
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge => Err(no_number(Dtype::Bool)),
    }
}

fn compared<T: Number>(
    binary: Binary,
    walk: &Walk<2>,
    from: [&[u8]; 2],
    into: &mut [u8],
) -> Result<(), String> {
    if binary == Binary::Eq {
        pairs(walk, from, into, |x: T, y| Ok(x == y))
    } else if binary == Binary::Ne {
        pairs(walk, from, into, |x: T, y| Ok(x != y))
    } else if binary == Binary::Lt {
        pairs(walk, from, into, |x: T, y| Ok(x < y))
    } else if binary == Binary::Le {
        pairs(walk, from, into, |x: T, y| Ok(x <= y))
    } else if binary == Binary::Gt {
        pairs(walk, from, into, |x: T, y| Ok(x > y))
    } else {
        pairs(walk, from, into, |x: T, y| Ok(x >= y))
    }
}

fn calculated<T: Number>(
    binary: Binary,
    walk: &Walk<2>,
    from: [&[u8]; 2],
    into: &mut [u8],
) -> Result<(), String> {
    match binary {
        Binary::Add => pairs(walk, from, into, |x: T, y| Ok(x.plus(y))),
        Binary::Sub => pairs(walk, from, into, |x: T, y| Ok(x.minus(y))),
        Binary::Mul => pairs(walk, from, into, |x: T, y| Ok(x.times(y))),
        Binary::FloorDiv => pairs(walk, from, into, T::floor_div),
        Binary::Mod => pairs(walk, from, into, T::modulo),
        Binary::Pow => pairs(walk, from, into, T::power),
        Binary::Min => pairs(walk, from, into, |x: T, y| Ok(x.least(y))),
        Binary::Max => pairs(walk, from, into, |x: T, y| Ok(x.greatest(y))),
        Binary::Div
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge
        | Binary::And
        | Binary::Or
        | Binary::Xor => Err(format!("expected an arithmetic operation, found {binary:?}")),
    }
}

/// Returns the quotients of floats.
pub(crate) fn quotient(one: &Tensor, other: &Tensor) -> Result<Tensor, String> {
    let dtype = one.dtype();
    let walk = Walk::new([one.dims(), other.dims()])?;
    let operands = [bytes_of(one)?, bytes_of(other)?];
    built(dtype, walk.dims.clone(), |into| {
        with_float!(
            dtype,
            T => pairs(&walk, operands, into, |x: T, y| Ok(x.over(y))),
            Err(no_number(dtype))
        )
    })
}

/// Returns the items of `of`, raised to at least the items of `low` and lowered to at most the items of
/// `high`.
pub(crate) fn clipped(of: &Tensor, low: &Tensor, high: &Tensor) -> Result<Tensor, String> {
    let raised = binary(Binary::Max, of, low)?;
    binary(Binary::Min, &raised, high)
}

/// Returns the items of `yes` where `condition` is true, and the items of `no` elsewhere.
pub(crate) fn chosen(condition: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor, String> {
    let dtype = yes.dtype();
    let walk = Walk::new([condition.dims(), yes.dims(), no.dims()])?;
    let Some(size) = dtype.item_bytes() else {
        return super::strings::chosen(&walk, condition, yes, no);
    };
    let (condition, yes, no) = (bytes_of(condition)?, bytes_of(yes)?, bytes_of(no)?);
    let [step, yes_step, no_step] = walk.steps;
    built(dtype, walk.dims.clone(), |into| {
        walk.rows(|at, [truth, one, other]| {
            let row = &mut into[at * size..][..walk.inner * size];
            for (nth, item) in row.chunks_exact_mut(size).enumerate() {
                let from = if condition[truth + nth * step] != 0 {
                    &yes[(one + nth * yes_step) * size..]
                } else {
                    &no[(other + nth * no_step) * size..]
                };
                item.copy_from_slice(&from[..size]);
            }
            Ok(())
        })
    })
}

fn each<T: Item, R: Item>(from: &[u8], into: &mut [u8], f: impl Fn(T) -> R) {
    for (item, into) in items::<T>(from).zip(into.chunks_exact_mut(R::BYTES)) {
        f(item).write(into);
    }
}

/// Applies `f` to every pair of items. Each of the three loops covers one combination of constant and moving
/// operands, and is simple enough to be vectorised.
fn pairs<T: Item, R: Item>(
    walk: &Walk<2>,
    [one, other]: [&[u8]; 2],
    into: &mut [u8],
    f: impl Fn(T, T) -> Result<R, &'static str>,
) -> Result<(), String> {
    let row_of = |bytes: usize, place: usize, step: usize| {
        let items = if step == 0 { 1 } else { walk.inner };
        place * bytes..(place + items) * bytes
    };
    walk.rows(|at, [first, second]| {
        let one = &one[row_of(T::BYTES, first, walk.steps[0])];
        let other = &other[row_of(T::BYTES, second, walk.steps[1])];
        let into = into[row_of(R::BYTES, at, 1)].chunks_exact_mut(R::BYTES);
        match walk.steps {
            [0, _] => {
                let x = T::read(&one[..T::BYTES]);
                for (y, into) in items::<T>(other).zip(into) {
                    f(x, y)?.write(into);
                }
            }
            [_, 0] => {
                let y = T::read(&other[..T::BYTES]);
                for (x, into) in items::<T>(one).zip(into) {
                    f(x, y)?.write(into);
                }
            }
            [_, _] => {
                for ((x, y), into) in items::<T>(one).zip(items::<T>(other)).zip(into) {
                    f(x, y)?.write(into);
                }
            }
        }
        Ok(())
    })
}
