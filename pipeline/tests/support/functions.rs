//! The functions that the tests' chains call by name.

use std::sync::Arc;

use millstream_element::Dtype;
use millstream_pipeline::exec::{Functions, PreparedMap, Tensor, Value};

use super::{model_of, scalar, sum};

/// `add`: adds its parameter to every item. `modulo`: the remainder of a scalar. `total`: adds up the components. `key`: the remainder of the sum.
/// `keep`: keeps elements whose sum has a rest. `below`: those whose sum is smaller.
pub(crate) fn functions() -> Functions {
    Functions::new()
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

fn add(tensor: &Tensor, amount: i64) -> Tensor {
    let settled = tensor.settled().unwrap();
    let sums = settled.contiguous().unwrap().chunks_exact(8);
    let sums: Vec<u8> = sums
        .flat_map(|item| (i64::from_le_bytes(item.try_into().unwrap()) + amount).to_le_bytes())
        .collect();
    Tensor::fixed(Dtype::I64, tensor.dims(), sums).unwrap()
}
