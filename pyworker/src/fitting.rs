//! The check that compares the results of users' Python code with their declared spec. The error shows the
//! line of Python that declares a spec for all results so far. This file does not run any code.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::{ErrorKind, ExecError, Tensor, Value};

use super::params::NAME;

/// Returns the value if it fits the spec.
///
/// # Errors
/// Names the spec, the found tensors, and the argument `element_spec` that accepts both.
pub fn fitting(value: Value, output: &ElementSpec) -> Result<Value, ExecError> {
    let specs = output.components();
    if value.len() == specs.len() && value.iter().zip(specs).all(|(tensor, spec)| tensor.fits(spec)) {
        return Ok(value);
    }
    let found: Vec<String> = value
        .iter()
        .map(|tensor| format!("{}{:?}", tensor.dtype(), tensor.dims()))
        .collect();
    let advice = match accepting(output, &value) {
        Some(line) => format!("If the shapes of results vary, pass element_spec={line}"),
        None => {
            "Return the same dtypes from every call, or convert the results to the dtypes of element_spec"
                .to_owned()
        }
    };
    let message = format!(
        "expected an element of {output} (as element_spec or the first element states), found {}. {advice}",
        found.join(", ")
    );
    Err(ExecError::new(ErrorKind::UserFunction, NAME, message))
}

/// Returns the spec that accepts the elements of `output` and also `value`, as an expression of Python;
/// `None` if the number of tensors or their dtypes differ.
fn accepting(output: &ElementSpec, value: &Value) -> Option<String> {
    let specs = output.components();
    if value.len() != specs.len() {
        return None;
    }
    let wider: Option<Vec<TensorSpec>> = specs
        .iter()
        .zip(value)
        .map(|(spec, tensor)| wider(spec, tensor))
        .collect();
    let mut text = String::new();
    write(output.structure(), &mut wider?.iter(), &mut text)?;
    Some(text)
}

/// Returns the narrowest spec for the tensors of `spec` and also `tensor`; `None` if their dtypes differ.
fn wider(spec: &TensorSpec, tensor: &Tensor) -> Option<TensorSpec> {
    if spec.dtype() != tensor.dtype() {
        return None;
    }
    let Some(dims) = spec.dims().filter(|dims| dims.len() == tensor.dims().len()) else {
        return Some(TensorSpec::unknown_rank(spec.dtype()));
    };
    let both = dims.iter().zip(tensor.dims());
    let dims: Vec<Option<u64>> = both.map(|(dim, found)| dim.filter(|dim| dim == found)).collect();
    Some(TensorSpec::with_dims(spec.dtype(), &dims))
}

/// Writes a spec as an expression of Python. Returns `None` for structures whose specs have further
/// restrictions.
fn write(
    structure: &Structure,
    specs: &mut std::slice::Iter<'_, TensorSpec>,
    text: &mut String,
) -> Option<()> {
    match structure {
        Structure::Leaf => text.push_str(&tensor(specs.next()?)),
        Structure::None => text.push_str("None"),
        Structure::Tuple(items) => {
            text.push('(');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                write(item, specs, text)?;
            }
            text.push_str(if items.len() == 1 { ",)" } else { ")" });
        }
        Structure::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                write(item, specs, text)?;
            }
            text.push(']');
        }
        Structure::Dict(entries) => {
            text.push('{');
            for (index, (name, item)) in entries.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                text.push_str(&format!("{name:?}: "));
                write(item, specs, text)?;
            }
            text.push('}');
        }
        Structure::Ragged { .. } | Structure::Sparse => return None,
    }
    Some(())
}

/// Returns the expression `ms.TensorSpec(SHAPE, DTYPE)` for one tensor.
fn tensor(spec: &TensorSpec) -> String {
    let shape = match spec.dims() {
        None => "None".to_owned(),
        Some(dims) => {
            let sizes: Vec<String> = dims
                .iter()
                .map(|dim| dim.map_or_else(|| "None".to_owned(), |size| size.to_string()))
                .collect();
            let comma = if sizes.len() == 1 { "," } else { "" };
            format!("({}{comma})", sizes.join(", "))
        }
    };
    format!("ms.TensorSpec({shape}, ms.{})", name_in_python(spec.dtype()))
}

/// Returns the name of the dtype in the package `millstream`.
fn name_in_python(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I8 => "int8",
        Dtype::I16 => "int16",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
        Dtype::U16 => "uint16",
        Dtype::U32 => "uint32",
        Dtype::U64 => "uint64",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        Dtype::F8E4M3 => "float8_e4m3fn",
        Dtype::F8E5M2 => "float8_e5m2",
        Dtype::C64 => "complex64",
        Dtype::C128 => "complex128",
        Dtype::String => "string",
        Dtype::Bytes => "bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(output: &ElementSpec, dtype: Dtype, dims: &[u64]) -> String {
        let items: u64 = dims.iter().product();
        let bytes = vec![0; items as usize * dtype.item_bytes().unwrap_or(1)];
        let value: Value = [Tensor::fixed(dtype, dims, bytes).unwrap()].into_iter().collect();
        fitting(value, output).unwrap_err().to_string()
    }

    #[test]
    fn a_misfit_shows_the_spec_to_write() {
        let images = ElementSpec::dict([("image", TensorSpec::fixed(Dtype::U8, &[5, 2, 3]))]).unwrap();
        let told = refusal(&images, Dtype::U8, &[1, 2, 3]);
        assert!(
            told.contains("pass element_spec={\"image\": ms.TensorSpec((None, 2, 3), ms.uint8)}"),
            "{told}"
        );
        let rows = ElementSpec::tuple([TensorSpec::fixed(Dtype::F32, &[5])]).unwrap();
        let told = refusal(&rows, Dtype::F32, &[1]);
        assert!(
            told.contains("pass element_spec=(ms.TensorSpec((None,), ms.float32),)"),
            "{told}"
        );
        let told = refusal(&rows, Dtype::F32, &[1, 1]);
        assert!(told.contains("ms.TensorSpec(None, ms.float32)"), "{told}");
    }

    #[test]
    fn another_dtype_has_no_spec() {
        let rows = ElementSpec::single(TensorSpec::fixed(Dtype::F32, &[5])).unwrap();
        let told = refusal(&rows, Dtype::I64, &[5]);
        assert!(
            told.contains("found i64[5]") && told.contains("Return the same dtypes"),
            "{told}"
        );
    }
}
