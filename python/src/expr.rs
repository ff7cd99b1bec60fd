//! Expressions: computations over the components of an element. The package offers expressions as Python
//! operators and functions.

use millstream::pipeline::graph::{ConstantTensor, Expr as Formula, Span, TextUnit, col, concat, stack};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::spec::dtype;

/// A computation over the components of one element. The result of an expression is one tensor.
#[derive(Debug, Clone)]
#[pyclass(frozen, from_py_object, module = "millstream._millstream")]
pub(crate) struct Expr(pub(crate) Formula);

#[pymethods]
impl Expr {
    /// Returns the component at a path, such as `image` or `a.0`. The empty path is the element's only
    /// component.
    #[staticmethod]
    fn column(path: String) -> Expr {
        Expr(col(path))
    }

    /// Returns a plain number, truth value or text. The literal takes the dtype of the other operand.
    #[staticmethod]
    fn literal(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
        // A Python bool is also an int, so bool is checked first.
        if let Ok(value) = value.extract::<bool>() {
            return Ok(Expr(value.into()));
        }
        if let Ok(value) = value.extract::<i64>() {
            return Ok(Expr(value.into()));
        }
        if let Ok(value) = value.extract::<f64>() {
            return Ok(Expr(value.into()));
        }
        Ok(Expr(value.extract::<String>()?.into()))
    }

    /// Returns a constant tensor, given as little-endian items or as byte strings.
    #[staticmethod]
    fn tensor(dtype_name: &str, dims: Vec<u64>, data: &Bound<'_, PyAny>) -> PyResult<Expr> {
        Ok(Expr(Formula::tensor(dtype(dtype_name)?, &dims, constant(data)?)))
    }

    /// Concatenates tensors along an axis.
    #[staticmethod]
    fn concat(exprs: Vec<Expr>, axis: i64) -> Expr {
        Expr(concat(exprs.into_iter().map(|expr| expr.0), axis))
    }

    /// Stacks tensors along a new axis.
    #[staticmethod]
    fn stack(exprs: Vec<Expr>, axis: i64) -> Expr {
        Expr(stack(exprs.into_iter().map(|expr| expr.0), axis))
    }

    /// Returns this expression over an element that holds the present element as its component `name`. Names
    /// of components that begin with `mark` lose the mark instead, and mean components beside it.
    fn below(&self, name: &str, mark: &str) -> Expr {
        Expr(self.0.renamed(|component| match component.strip_prefix(mark) {
            Some(beside) => beside.to_owned(),
            None if component.is_empty() => name.to_owned(),
            None => format!("{name}.{component}"),
        }))
    }

    fn unary(&self, name: &str) -> PyResult<Expr> {
        let of = self.0.clone();
        Ok(Expr(match name {
            "neg" => -of,
            "not" => !of,
            "abs" => of.abs(),
            "sign" => of.sign(),
            "floor" => of.floor(),
            "ceil" => of.ceil(),
            "round" => of.round(),
            "sqrt" => of.sqrt(),
            "exp" => of.exp(),
            "log" => of.log(),
            "tanh" => of.tanh(),
            "is_nan" => of.is_nan(),
            "is_finite" => of.is_finite(),
            "len" => of.len(),
            "shape" => of.shape(),
            "lower" => of.lower(),
            "upper" => of.upper(),
            "strip" => of.strip(),
            "to_text" => of.to_text(),
            other => return Err(unknown(other)),
        }))
    }

    fn binary(&self, name: &str, other: &Expr) -> PyResult<Expr> {
        let (one, other) = (self.0.clone(), other.0.clone());
        Ok(Expr(match name {
            "add" => one + other,
            "sub" => one - other,
            "mul" => one * other,
            "div" => one / other,
            "mod" => one % other,
            "floor_div" => one.floor_div(other),
            "pow" => one.pow(other),
            "minimum" => one.minimum(other),
            "maximum" => one.maximum(other),
            "eq" => one.eq(other),
            "ne" => one.ne(other),
            "lt" => one.lt(other),
            "le" => one.le(other),
            "gt" => one.gt(other),
            "ge" => one.ge(other),
            "and" => one & other,
            "or" => one | other,
            "xor" => one ^ other,
            other => return Err(unknown(other)),
        }))
    }

    fn reduce(&self, name: &str, axes: Vec<i64>, keep_dims: bool) -> PyResult<Expr> {
        let of = self.0.clone();
        Ok(Expr(match name {
            "sum" => of.sum(axes, keep_dims),
            "mean" => of.mean(axes, keep_dims),
            "max" => of.max(axes, keep_dims),
            "min" => of.min(axes, keep_dims),
            "any" => of.any(axes, keep_dims),
            "all" => of.all(axes, keep_dims),
            other => return Err(unknown(other)),
        }))
    }

    fn cast(&self, dtype_name: &str, saturate: bool) -> PyResult<Expr> {
        let (of, dtype) = (self.0.clone(), dtype(dtype_name)?);
        Ok(Expr(if saturate {
            of.saturating_cast(dtype)
        } else {
            of.cast(dtype)
        }))
    }

    fn if_else(&self, yes: &Expr, no: &Expr) -> Expr {
        Expr(self.0.clone().if_else(yes.0.clone(), no.0.clone()))
    }

    fn clip(&self, low: &Expr, high: &Expr) -> Expr {
        Expr(self.0.clone().clip(low.0.clone(), high.0.clone()))
    }

    /// Indexes the tensor as `x[…]` does, with one integer or slice for each axis.
    fn index(&self, places: Vec<Bound<'_, PyAny>>) -> PyResult<Expr> {
        let spans: PyResult<Vec<Span>> = places.iter().map(span).collect();
        Ok(Expr(self.0.clone().slice(spans?)))
    }

    fn gather(&self, indices: &Expr, axis: i64) -> Expr {
        Expr(self.0.clone().gather(indices.0.clone(), axis))
    }

    fn reshape(&self, dims: Vec<i64>) -> Expr {
        Expr(self.0.clone().reshape(dims))
    }

    fn expand_dims(&self, axis: i64) -> Expr {
        Expr(self.0.clone().expand_dims(axis))
    }

    fn squeeze(&self, axes: Vec<i64>) -> Expr {
        Expr(self.0.clone().squeeze(axes))
    }

    fn transpose(&self, axes: Vec<u64>) -> Expr {
        Expr(self.0.clone().transpose(axes))
    }

    fn broadcast_to(&self, dims: Vec<u64>) -> Expr {
        Expr(self.0.clone().broadcast_to(dims))
    }

    fn pad(&self, pads: Vec<(u64, u64)>, value: &Expr) -> Expr {
        Expr(self.0.clone().pad(pads, value.0.clone()))
    }

    fn one_hot(&self, depth: u64, dtype_name: &str) -> PyResult<Expr> {
        Ok(Expr(self.0.clone().one_hot(depth, dtype(dtype_name)?)))
    }

    fn decode_raw(&self, dtype_name: &str, big_endian: bool) -> PyResult<Expr> {
        Ok(Expr(self.0.clone().decode_raw(dtype(dtype_name)?, big_endian)))
    }

    fn to_number(&self, dtype_name: &str) -> PyResult<Expr> {
        Ok(Expr(self.0.clone().to_number(dtype(dtype_name)?)))
    }

    fn text_len(&self, unit: &str) -> PyResult<Expr> {
        Ok(Expr(self.0.clone().text_len(text_unit(unit)?)))
    }

    fn substr(&self, start: i64, length: u64, unit: &str) -> PyResult<Expr> {
        Ok(Expr(self.0.clone().substr(start, length, text_unit(unit)?)))
    }

    fn regex(&self, kind: &str, pattern: String, rewrite: Option<String>) -> PyResult<Expr> {
        let (of, rewrite) = (self.0.clone(), rewrite.unwrap_or_default());
        Ok(Expr(match kind {
            "full_match" => of.regex_full_match(pattern),
            "contains" => of.regex_contains(pattern),
            "replace" => of.regex_replace(pattern, rewrite),
            "replace_first" => of.regex_replace_first(pattern, rewrite),
            other => return Err(unknown(other)),
        }))
    }

    fn split(&self, separator: Option<&str>) -> Expr {
        Expr(self.0.clone().split(separator))
    }

    fn join(&self, separator: String) -> Expr {
        Expr(self.0.clone().join(separator))
    }

    fn hash_bucket(&self, buckets: u64) -> Expr {
        Expr(self.0.clone().hash_bucket(buckets))
    }

    fn lookup(&self, words: Vec<Vec<u8>>, other: Option<i64>) -> Expr {
        Expr(self.0.clone().lookup(words, other))
    }
}

/// Returns the data of a constant tensor, given as the bytes of its items or as a list of byte strings.
pub(crate) fn constant(data: &Bound<'_, PyAny>) -> PyResult<ConstantTensor> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(ConstantTensor::fixed(bytes.as_bytes()));
    }
    Ok(ConstantTensor::items(data.extract::<Vec<Vec<u8>>>()?))
}

fn span(place: &Bound<'_, PyAny>) -> PyResult<Span> {
    if let Ok(slice) = place.cast::<PySlice>() {
        let part = |name| slice.getattr(name)?.extract::<Option<i64>>();
        return Ok(Span::Range {
            start: part("start")?,
            stop: part("stop")?,
            step: part("step")?.unwrap_or(1),
        });
    }
    Ok(Span::At(place.extract()?))
}

fn text_unit(name: &str) -> PyResult<TextUnit> {
    match name {
        "BYTE" => Ok(TextUnit::Bytes),
        "UTF8_CHAR" => Ok(TextUnit::Chars),
        other => Err(PyValueError::new_err(format!(
            "invalid unit {other:?}: expected BYTE or UTF8_CHAR"
        ))),
    }
}

fn unknown(name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown operation of an expression: {name:?}"))
}
