//! Tensors for the naive models of expressions, and the evaluation of expressions over constants.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ExecError, Executor, Tensor};
use millstream_pipeline::graph::{ConstantTensor, Dataset, Expr, NoFunctions};
use proptest::prelude::*;

use crate::support::context;

/// A tensor of integers, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array {
    pub(super) dims: Vec<u64>,
    pub(super) items: Vec<i64>,
}

impl Array {
    pub(super) fn new(dims: &[u64], item: impl Fn(&[u64]) -> i64) -> Array {
        let items = places(dims).iter().map(|place| item(place)).collect();
        Array {
            dims: dims.to_vec(),
            items,
        }
    }

    pub(super) fn at(&self, place: &[u64]) -> i64 {
        let index = place.iter().zip(&self.dims);
        let index = index.fold(0, |index, (place, dim)| index * dim + place);
        self.items[index as usize]
    }

    /// Returns the item that broadcasting puts at `place`.
    pub(super) fn broadcast_at(&self, place: &[u64]) -> i64 {
        let own = &place[place.len() - self.dims.len()..];
        let own = own.iter().zip(&self.dims);
        let own: Vec<u64> = own
            .map(|(place, dim)| if *dim == 1 { 0 } else { *place })
            .collect();
        self.at(&own)
    }

    /// Converts the numbers to items of `dtype`; larger numbers are cut.
    pub(super) fn column(&self, dtype: Dtype) -> (TensorSpec, ConstantTensor) {
        let bytes = self
            .items
            .iter()
            .flat_map(|item| encoded(*item as f64, *item, dtype));
        let bytes: Vec<u8> = bytes.collect();
        (TensorSpec::fixed(dtype, &self.dims), ConstantTensor::fixed(bytes))
    }
}

/// Returns the bytes of a float or an integer as an item of `dtype`.
pub(super) fn encoded(float: f64, int: i64, dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![u8::from(int != 0)],
        Dtype::I8 => (int as i8).to_le_bytes().to_vec(),
        Dtype::I16 => (int as i16).to_le_bytes().to_vec(),
        Dtype::I32 => (int as i32).to_le_bytes().to_vec(),
        Dtype::I64 => int.to_le_bytes().to_vec(),
        Dtype::U8 => (int as u8).to_le_bytes().to_vec(),
        Dtype::U16 => (int as u16).to_le_bytes().to_vec(),
        Dtype::U32 => (int as u32).to_le_bytes().to_vec(),
        Dtype::U64 => (int as u64).to_le_bytes().to_vec(),
        Dtype::F32 => (float as f32).to_le_bytes().to_vec(),
        Dtype::F64 => float.to_le_bytes().to_vec(),
        Dtype::F16
        | Dtype::Bf16
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => panic!("the naive model does not support {dtype}"),
    }
}

/// Returns every index into a tensor with the dimensions `dims`, in row-major order.
pub(super) fn places(dims: &[u64]) -> Vec<Vec<u64>> {
    match dims.split_first() {
        None => vec![vec![]],
        Some((first, rest)) => {
            let rest = places(rest);
            let each = |at: u64| rest.iter().map(move |place| [&[at], place.as_slice()].concat());
            (0..*first).flat_map(each).collect()
        }
    }
}

/// Draws an array of at most three dimensions of at most three items, with numbers around 0.
pub(super) fn array() -> impl Strategy<Value = Array> {
    prop::collection::vec(0u64..4, 0..4).prop_flat_map(filled)
}

/// Draws an array like `array` does, with exactly `rank` dimensions.
pub(super) fn array_of_rank(rank: usize) -> impl Strategy<Value = Array> {
    prop::collection::vec(0u64..4, rank).prop_flat_map(filled)
}

pub(super) fn filled(dims: Vec<u64>) -> impl Strategy<Value = Array> {
    let items = dims.iter().product::<u64>() as usize;
    prop::collection::vec(-20i64..21, items).prop_map(move |items| Array {
        dims: dims.clone(),
        items,
    })
}

/// Evaluates `expr` for an element with the components `columns`. Checks that the result matches the
/// spec from the analysis, both for known and for unknown shapes.
pub(super) fn computed(
    columns: &[(&str, (TensorSpec, ConstantTensor))],
    expr: Expr,
) -> Result<Tensor, ExecError> {
    let spec = ElementSpec::dict(columns.iter().map(|(name, (spec, _))| (*name, spec.clone())));
    let tensors = columns.iter().map(|(_, (_, tensor))| tensor.clone()).collect();
    let dataset = Dataset::tensors(spec.unwrap(), tensors).map_expr(expr);
    let graph = dataset.graph().unwrap();
    let promised = graph.facts(&NoFunctions).unwrap().spec;
    let mut executor = Executor::open(&graph, context()).unwrap();
    let item = executor.next()?.unwrap();
    let result = item.value[0].settled().unwrap();
    assert!(
        result.fits(&promised.components()[0]),
        "{result:?} is not {promised}"
    );
    Ok(result)
}

/// Converts an `i64` tensor to an array.
pub(super) fn array_of(tensor: &Tensor) -> Array {
    assert_eq!(tensor.dtype(), Dtype::I64);
    let items = tensor.contiguous().unwrap().chunks_exact(8);
    Array {
        dims: tensor.dims().to_vec(),
        items: items
            .map(|item| i64::from_le_bytes(item.try_into().unwrap()))
            .collect(),
    }
}

/// Evaluates `expr` for the `i64` arrays `arrays`, which are named "a", "b" and "c".
pub(super) fn of_arrays(arrays: &[&Array], expr: Expr) -> Result<Array, ExecError> {
    let names = ["a", "b", "c"];
    let columns: Vec<_> = names
        .into_iter()
        .zip(arrays.iter().map(|array| array.column(Dtype::I64)))
        .collect();
    computed(&columns, expr).map(|tensor| array_of(&tensor))
}

/// Returns a column of strings.
pub(super) fn strings(items: &[&str]) -> (TensorSpec, ConstantTensor) {
    let spec = TensorSpec::fixed(Dtype::String, &[items.len() as u64]);
    (spec, ConstantTensor::items(items.iter().copied()))
}

pub(super) fn string(item: &str) -> (TensorSpec, ConstantTensor) {
    (TensorSpec::scalar(Dtype::String), ConstantTensor::items([item]))
}

pub(super) fn byte_string(item: &[u8]) -> (TensorSpec, ConstantTensor) {
    (
        TensorSpec::scalar(Dtype::Bytes),
        ConstantTensor::items([item.to_vec()]),
    )
}

/// Returns the strings of a tensor.
pub(super) fn texts(tensor: &Tensor) -> Vec<String> {
    let mut all = Vec::new();
    tensor.for_each_string(&mut |item| all.push(String::from_utf8(item.to_vec()).unwrap()));
    all
}
