//! The rendering of elements as text, for comparisons and for developers.

use millstream_element::Dtype;
use millstream_pipeline::exec::{Tensor, Value};

/// Renders the components of an element, separated by spaces, with rows in brackets. Large tensors are
/// abbreviated.
pub(crate) fn rendered(value: &Value) -> String {
    let tensors: Vec<String> = value.iter().map(rendered_tensor).collect();
    tensors.join(" ")
}

fn rendered_tensor(tensor: &Tensor) -> String {
    let tensor = tensor.settled().unwrap();
    let mut items: Vec<String> = Vec::new();
    match (tensor.dtype(), tensor.contiguous()) {
        (Dtype::I64, Some(bytes)) => {
            let numbers = bytes
                .chunks_exact(8)
                .map(|item| i64::from_le_bytes(item.try_into().unwrap()));
            items.extend(numbers.map(|number| number.to_string()));
        }
        (Dtype::F32, Some(bytes)) => {
            let numbers = bytes
                .chunks_exact(4)
                .map(|item| f32::from_le_bytes(item.try_into().unwrap()));
            items.extend(numbers.map(|number| number.to_string()));
        }
        (Dtype::I32, Some(bytes)) => {
            let numbers = bytes
                .chunks_exact(4)
                .map(|item| i32::from_le_bytes(item.try_into().unwrap()));
            items.extend(numbers.map(|number| number.to_string()));
        }
        (Dtype::String | Dtype::Bytes, _) => {
            tensor.for_each_string(&mut |item| items.push(String::from_utf8_lossy(item).into_owned()));
        }
        (dtype, _) => return format!("{dtype}{:?}", tensor.dims()),
    }
    rows(tensor.dims(), &mut items.into_iter())
}

fn rows(dims: &[u64], items: &mut dyn Iterator<Item = String>) -> String {
    let Some((count, rest)) = dims.split_first() else {
        return items.next().unwrap();
    };
    let rows: Vec<String> = (0..*count).map(|_| rows(rest, items)).collect();
    format!("[{}]", rows.join(" "))
}
