//! Operations that take functions: expressions over the element, and bodies that build datasets.

use std::sync::Arc;

use millstream::element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream::pipeline::graph::{
    Buckets, Constant, Dataset, Padding, SourceDeclaration, SpecField, Window,
};
use millstream::python;
use pyo3::prelude::*;

use super::Graph;
use crate::expr::{Expr, constant};
use crate::failure::raise;
use crate::{code, spec};

/// The builder of operations' bodies, which calls a Python function. The builder keeps the function's
/// exception, because the library's callback cannot return an exception.
struct Bodies {
    raised: Option<PyErr>,
}

impl Bodies {
    /// Returns the dataset that `function` builds from the placeholder of its argument. The argument has the
    /// spec `argument`.
    fn build(
        &mut self,
        placeholder: Dataset,
        argument: &Arc<ElementSpec>,
        function: &Bound<'_, PyAny>,
    ) -> Dataset {
        // The copy tells this function's argument apart from those of functions around it.
        let argument = Arc::new(ElementSpec::clone(argument));
        let made = Graph::within(placeholder.clone(), argument.clone())
            .and_then(|graph| function.call1((graph,)))
            .and_then(|made| Ok(made.extract::<Graph>()?))
            .and_then(|graph| graph.check_argument(&argument).map(|()| graph));
        match made {
            Ok(graph) => graph.dataset(),
            Err(error) => {
                self.raised.get_or_insert(error);
                placeholder
            }
        }
    }

    fn finish(self, of: &Graph, dataset: Dataset) -> PyResult<Graph> {
        match self.raised {
            Some(error) => Err(error),
            None => of.made(dataset),
        }
    }
}

impl Graph {
    /// Adds an operation with one body, whose argument has the spec `argument`.
    fn with_body(
        &self,
        argument: &Arc<ElementSpec>,
        function: &Bound<'_, PyAny>,
        op: impl FnOnce(Dataset, &mut dyn FnMut(Dataset) -> Dataset) -> Dataset,
    ) -> PyResult<Graph> {
        let mut bodies = Bodies { raised: None };
        let dataset = op(self.dataset(), &mut |placeholder| {
            bodies.build(placeholder, argument, function)
        });
        bodies.finish(self, dataset)
    }
}

/// Returns the spec of the argument of a function that carries a state.
fn state_and_element(state: &ElementSpec, element: &ElementSpec) -> PyResult<ElementSpec> {
    let structure = Structure::Dict(vec![
        ("state".to_owned(), state.structure().clone()),
        ("element".to_owned(), element.structure().clone()),
    ]);
    let components = state.components().iter().chain(element.components()).cloned();
    ElementSpec::new(structure, components.collect()).map_err(|error| raise("InvalidArgumentError", error))
}

#[pymethods]
impl Graph {
    /// Maps each element to one tensor.
    fn map_expr(&self, expr: Expr) -> PyResult<Graph> {
        self.step(|dataset| dataset.map_expr(expr.0))
    }

    /// Maps each element to a dict.
    fn map_exprs(&self, exprs: Vec<(String, Expr)>) -> PyResult<Graph> {
        self.step(|dataset| dataset.map_exprs(exprs.into_iter().map(|(name, expr)| (name, expr.0))))
    }

    /// Maps each element to a tuple.
    fn map_tuple(&self, exprs: Vec<Expr>) -> PyResult<Graph> {
        self.step(|dataset| dataset.map_tuple(exprs.into_iter().map(|expr| expr.0)))
    }

    /// Maps each element to a structure nested as `described`, with one expression for each leaf, in order.
    fn map_nested(&self, described: &Bound<'_, PyAny>, exprs: Vec<Expr>) -> PyResult<Graph> {
        let structure = spec::from_python(described)?.structure().clone();
        self.step(|dataset| dataset.map_nested(structure, exprs.into_iter().map(|expr| expr.0)))
    }

    /// Applies a body to each element and a state. The body takes a dict of `state` and `element`, and
    /// returns a pair of the new state and the result.
    fn scan(
        &self,
        described: &Bound<'_, PyAny>,
        data: Vec<Bound<'_, PyAny>>,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<Graph> {
        let initial = spec::from_python(described)?;
        let argument = Arc::new(state_and_element(&initial, self.element_spec())?);
        let tensors: PyResult<Vec<_>> = data.iter().map(constant).collect();
        let state = Constant {
            spec: SpecField(initial),
            tensors: tensors?,
        };
        self.with_body(&argument, body, |dataset, build| dataset.scan(state, build))
    }

    /// Applies Python code to each element. The result has the spec `output`.
    fn map_python(&self, output: &Bound<'_, PyAny>, code_bytes: &[u8]) -> PyResult<Graph> {
        let output = spec::from_python(output)?;
        let params = code::params(&output, code_bytes);
        self.step(|dataset| dataset.map_declared(python::NAME, params, output))
    }

    /// Yields all elements that Python code yields for each input element. The yielded elements have the spec
    /// `output`.
    fn flat_map_python(&self, output: &Bound<'_, PyAny>, code_bytes: &[u8]) -> PyResult<Graph> {
        let output = spec::from_python(output)?;
        let params = code::params(&output, code_bytes);
        self.step(|dataset| dataset.flat_map_declared(python::NAME, params, output))
    }

    /// Returns a source of the elements of a Python iterable, which have the spec `output`. `count` is -1 for
    /// an infinite iterable, and -2 for an unknown number.
    #[staticmethod]
    fn iterable(output: &Bound<'_, PyAny>, code_bytes: &[u8], count: i64) -> PyResult<Graph> {
        let output = spec::from_python(output)?;
        let params = code::params(&output, code_bytes);
        let declared = SourceDeclaration {
            spec: SpecField(output),
            count: u64::try_from(count).ok(),
            infinite: count == -1,
            indexable: false,
        };
        Graph::new(Dataset::declared_source(python::NAME, params, declared))
    }

    /// Replaces components of these names, or adds them to a dict.
    fn with_components(&self, exprs: Vec<(String, Expr)>) -> PyResult<Graph> {
        self.step(|dataset| dataset.with_components(exprs.into_iter().map(|(name, expr)| (name, expr.0))))
    }

    fn filter_expr(&self, expr: Expr) -> PyResult<Graph> {
        self.step(|dataset| dataset.filter_expr(expr.0))
    }

    fn take_while_expr(&self, expr: Expr) -> PyResult<Graph> {
        self.step(|dataset| dataset.take_while_expr(expr.0))
    }

    fn flat_map(&self, body: &Bound<'_, PyAny>) -> PyResult<Graph> {
        self.with_body(self.element_spec(), body, |dataset, build| {
            dataset.flat_map(build)
        })
    }

    fn interleave(&self, length: u64, block: u64, body: &Bound<'_, PyAny>) -> PyResult<Graph> {
        self.with_body(self.element_spec(), body, |dataset, build| {
            dataset.interleave(length, block, build)
        })
    }

    fn window(
        &self,
        size: u64,
        shift: u64,
        stride: u64,
        drop_remainder: bool,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<Graph> {
        let window = Window {
            size,
            shift,
            stride,
            drop_remainder,
        };
        self.with_body(self.element_spec(), body, |dataset, build| {
            dataset.window(window, build)
        })
    }

    fn group_by_window(&self, key: &Bound<'_, PyAny>, size: u64, body: &Bound<'_, PyAny>) -> PyResult<Graph> {
        let (mut of_key, mut of_body) = (Bodies { raised: None }, Bodies { raised: None });
        let spec = self.element_spec();
        let dataset = self.dataset().group_by_window(
            |placeholder| of_key.build(placeholder, spec, key),
            size,
            |placeholder| of_body.build(placeholder, spec, body),
        );
        let raised = of_key.raised.or(of_body.raised);
        Bodies { raised }.finish(self, dataset)
    }

    /// Groups elements by a key into windows. The function `size` maps the key to the number of elements in a
    /// window.
    fn group_by_window_sized(
        &self,
        key: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<Graph> {
        let [mut of_key, mut of_size, mut of_body] = [(); 3].map(|()| Bodies { raised: None });
        let spec = self.element_spec();
        let number = ElementSpec::single(TensorSpec::scalar(Dtype::I64))
            .map_err(|error| raise("InternalError", error))?;
        let number = Arc::new(number);
        let dataset = self.dataset().group_by_window_sized(
            |placeholder| of_key.build(placeholder, spec, key),
            |placeholder| of_size.build(placeholder, &number, size),
            |placeholder| of_body.build(placeholder, spec, body),
        );
        let raised = of_key.raised.or(of_size.raised).or(of_body.raised);
        Bodies { raised }.finish(self, dataset)
    }

    fn bucket_by_sequence_length(
        &self,
        length: &Bound<'_, PyAny>,
        boundaries: Vec<i64>,
        batch_sizes: Vec<u64>,
        pads_to_boundary: bool,
        is_padded: bool,
        drop_remainder: bool,
    ) -> PyResult<Graph> {
        let padding = match (is_padded, pads_to_boundary) {
            (false, _) => Padding::None,
            (true, true) => Padding::Boundary,
            (true, false) => Padding::Longest,
        };
        let buckets = Buckets {
            boundaries,
            batch_sizes,
            padding,
            drop_remainder,
        };
        self.with_body(self.element_spec(), length, |dataset, build| {
            dataset.bucket_by_sequence_length(build, buckets)
        })
    }

    fn rejection_resample(
        &self,
        class_func: &Bound<'_, PyAny>,
        target: Vec<f64>,
        initial: Option<Vec<f64>>,
        seed: Option<u64>,
    ) -> PyResult<Graph> {
        self.with_body(self.element_spec(), class_func, |dataset, build| {
            dataset.rejection_resample(build, target, initial, seed)
        })
    }
}
