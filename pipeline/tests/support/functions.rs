//! The registered functions of the tests' chains.

use std::ops::Range;
use std::sync::Arc;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ExecError, Functions, PreparedMap, Source, SourceFactory, Tensor, Value};
use millstream_pipeline::graph::{Cardinality, Params, SourceSignature};

use super::{model_of, scalar, sum};

/// Returns the functions of the tests' chains:
/// - `add`: adds its parameter to every item.
/// - `modulo`: returns the remainder of a scalar.
/// - `total`: returns the sum of the components.
/// - `key`: returns the remainder of the sum of the items.
/// - `up_to`: returns the numbers below a number.
/// - `length`: returns the first dimension.
/// - `running`: returns a + b and a + 2 b for the components a and b.
/// - `fails`: fails if the sum of the first component is a multiple of its parameter.
/// - `keep`: a predicate for a given remainder of the sum.
/// - `below`: a predicate for sums below its parameter.
pub(crate) fn functions() -> Functions {
    shaping()
        .with_map("add", |params, input| {
            let amount: i64 = params.decode()?;
            let call = move |value: Value| Ok(value.iter().map(|tensor| add(tensor, amount)).collect());
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_map("modulo", |params, input| {
            let modulus: i64 = params.decode()?;
            let call = move |value: Value| {
                let number = value[0].settled()?.as_i64().ok_or("no number")?;
                Ok(Value::from_buf([Tensor::i64(number.rem_euclid(modulus))]))
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_map("total", |_, _| {
            let call = |value: Value| {
                let items = value
                    .iter()
                    .map(|tensor| tensor.settled().unwrap().as_i64().unwrap());
                Ok(Value::from_buf([Tensor::i64(items.sum())]))
            };
            Ok(PreparedMap {
                output: scalar(),
                call: Arc::new(call),
            })
        })
        .with_map("key", |params, _| {
            let modulus: i64 = params.decode()?;
            let call = move |value: Value| {
                let key = sum(&model_of(&value)).rem_euclid(modulus);
                Ok(Value::from_buf([Tensor::i64(key)]))
            };
            Ok(PreparedMap {
                output: scalar(),
                call: Arc::new(call),
            })
        })
        .with_map("fails", |params, input| {
            let modulus: i64 = params.decode()?;
            let call = move |value: Value| match sum(&model_of(&value)).rem_euclid(modulus) {
                0 => Err("a multiple".into()),
                _ => Ok(value),
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_source("squares", Squares)
        .with_filter("below", |params, _| {
            let bound: i64 = params.decode()?;
            Ok(Arc::new(move |value: &Value| Ok(sum(&model_of(value)) < bound)))
        })
        .with_filter("keep", |params, _| {
            let (modulus, rest): (i64, i64) = params.decode()?;
            Ok(Arc::new(move |value: &Value| {
                Ok(sum(&model_of(value)).rem_euclid(modulus) == rest)
            }))
        })
}

/// Returns the functions that change the shape of their input.
fn shaping() -> Functions {
    Functions::new()
        .with_map("up_to", |_, _| {
            let call = |value: Value| {
                let end = value[0].settled()?.as_i64().ok_or("no number")?;
                let items: Vec<u8> = (0..end).flat_map(i64::to_le_bytes).collect();
                Ok(Value::from_buf([Tensor::fixed(
                    Dtype::I64,
                    &[end as u64],
                    items,
                )?]))
            };
            Ok(PreparedMap {
                output: ElementSpec::single(TensorSpec::with_dims(Dtype::I64, &[None])).unwrap(),
                call: Arc::new(call),
            })
        })
        .with_map("running", |_, _| {
            let call = |value: Value| {
                let number = |at: usize| value[at].settled().unwrap().as_i64().ok_or("no number");
                let (state, element) = (number(0)?, number(1)?);
                Ok(Value::from_iter(
                    [state + element, state + 2 * element].map(Tensor::i64),
                ))
            };
            let pair = ElementSpec::tuple([TensorSpec::scalar(Dtype::I64), TensorSpec::scalar(Dtype::I64)]);
            Ok(PreparedMap {
                output: pair.unwrap(),
                call: Arc::new(call),
            })
        })
        .with_map("length", |_, _| {
            let call = |value: Value| Ok(Value::from_buf([Tensor::i64(value[0].dims()[0] as i64)]));
            Ok(PreparedMap {
                output: scalar(),
                call: Arc::new(call),
            })
        })
}

/// A source of the first five squares.
struct Squares;

impl SourceFactory for Squares {
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Finite(5),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, positions: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        Ok(Box::new(SquaresOf(positions)))
    }
}

struct SquaresOf(Range<u64>);

impl Source for SquaresOf {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let next = self.0.next();
        Ok(next.map(|number| Value::from_buf([Tensor::i64((number * number) as i64)])))
    }
}

fn add(tensor: &Tensor, amount: i64) -> Tensor {
    let settled = tensor.settled().unwrap();
    let sums = settled.contiguous().unwrap().chunks_exact(8);
    let sums: Vec<u8> = sums
        .flat_map(|item| (i64::from_le_bytes(item.try_into().unwrap()) + amount).to_le_bytes())
        .collect();
    Tensor::fixed(Dtype::I64, tensor.dims(), sums).unwrap()
}
