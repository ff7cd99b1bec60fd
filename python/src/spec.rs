//! Element specs in Python: plain tuples, which the package wraps in its own classes.
//!
//! A tensor is `("tensor", dtype, dims)`. `dims` is `None` for an unknown rank, and contains `None` for each
//! dimension of varying size. Containers are `("tuple", items)`, `("list", items)` and
//! `("dict", [(name, item), …])`. Composites are `("ragged", parts)` and `("sparse", parts)`. The empty
//! structure is `("none",)`.

use millstream::element::{Dtype, ElementSpec, Structure, TensorSpec};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::failure::raise;

/// Converts a spec to plain tuples.
pub(crate) fn to_python<'py>(py: Python<'py>, spec: &ElementSpec) -> PyResult<Bound<'py, PyAny>> {
    node(py, spec.structure(), &mut spec.components().iter())
}

fn node<'py>(
    py: Python<'py>,
    structure: &Structure,
    specs: &mut std::slice::Iter<'_, TensorSpec>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut all = |kind: &str, items: &[Structure]| {
        let items: PyResult<Vec<_>> = items.iter().map(|item| node(py, item, specs)).collect();
        (kind, PyList::new(py, items?)?).into_bound_py_any(py)
    };
    match structure {
        Structure::Leaf => match specs.next() {
            Some(spec) => {
                let dims = match spec.dims() {
                    Some(dims) => PyTuple::new(py, dims)?.into_any(),
                    None => py.None().into_bound(py),
                };
                ("tensor", spec.dtype().to_string(), dims).into_bound_py_any(py)
            }
            None => Err(PyValueError::new_err("a spec lacks a component")),
        },
        Structure::Tuple(items) => all("tuple", items),
        Structure::List(items) => all("list", items),
        Structure::Dict(entries) => {
            let entries: PyResult<Vec<_>> = entries
                .iter()
                .map(|(name, item)| Ok((name, node(py, item, specs)?)))
                .collect();
            ("dict", PyList::new(py, entries?)?).into_bound_py_any(py)
        }
        Structure::Ragged { ragged_rank } => {
            all("ragged", &vec![Structure::Leaf; 1 + usize::from(*ragged_rank)])
        }
        Structure::Sparse => all("sparse", &[Structure::Leaf, Structure::Leaf, Structure::Leaf]),
        Structure::None => ("none",).into_bound_py_any(py),
    }
}

/// Converts plain tuples to a spec.
///
/// # Errors
/// `InvalidArgumentError` if no element can have this spec.
pub(crate) fn from_python(described: &Bound<'_, PyAny>) -> PyResult<ElementSpec> {
    let mut specs = Vec::new();
    let structure = structure(described, &mut specs)?;
    ElementSpec::new(structure, specs).map_err(|error| raise("InvalidArgumentError", error))
}

fn structure(described: &Bound<'_, PyAny>, specs: &mut Vec<TensorSpec>) -> PyResult<Structure> {
    let kind: String = described.get_item(0)?.extract()?;
    let items = || described.get_item(1)?.try_iter();
    let all = |specs: &mut Vec<TensorSpec>| -> PyResult<Vec<Structure>> {
        items()?.map(|item| structure(&item?, specs)).collect()
    };
    Ok(match kind.as_str() {
        "tensor" => {
            specs.push(tensor(described)?);
            Structure::Leaf
        }
        "tuple" => Structure::Tuple(all(specs)?),
        "list" => Structure::List(all(specs)?),
        "dict" => {
            let mut entries = Vec::new();
            for entry in items()? {
                let (name, item): (String, Bound<'_, PyAny>) = entry?.extract()?;
                entries.push((name, structure(&item, specs)?));
            }
            Structure::Dict(entries)
        }
        "ragged" => {
            let parts = all(specs)?.len();
            let ragged_rank = u8::try_from(parts.saturating_sub(1)).unwrap_or(u8::MAX);
            Structure::Ragged { ragged_rank }
        }
        "sparse" => {
            all(specs)?;
            Structure::Sparse
        }
        "none" => Structure::None,
        other => return Err(PyValueError::new_err(format!("unknown kind of spec: {other:?}"))),
    })
}

fn tensor(described: &Bound<'_, PyAny>) -> PyResult<TensorSpec> {
    let dtype = dtype(&described.get_item(1)?.extract::<String>()?)?;
    let dims: Option<Vec<Option<u64>>> = described.get_item(2)?.extract()?;
    Ok(match dims {
        Some(dims) => TensorSpec::with_dims(dtype, &dims),
        None => TensorSpec::unknown_rank(dtype),
    })
}

/// Returns the dtype of this name.
///
/// # Errors
/// `InvalidArgumentError` for an unknown name.
pub(crate) fn dtype(name: &str) -> PyResult<Dtype> {
    name.parse()
        .map_err(|error: millstream::element::DtypeError| raise("InvalidArgumentError", error))
}
