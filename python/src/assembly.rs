//! Elements as Python objects. Containers are nested as in the spec; leaves are numpy arrays, scalars, text,
//! or the tensors that a framework creates from DLPack.
//!
//! An assembly is built once for a spec, so that an element costs only its objects. Does not know the source
//! of elements.

use std::cell::Cell;
use std::sync::Arc;

use millstream::element::{Dtype, Element, ElementSpec, Layout, Structure, TensorView};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PySlice, PyString, PyTuple};

use crate::dlpack::{Exchange, Exported};
use crate::failure::raise;
use crate::{array, npy};

/// The size in bytes up to which a component is copied. A small copy costs no more than a view, and lets the
/// slot be freed at once.
const COPY_BYTES_MAX: usize = 1024;

/// The kind of object that each leaf becomes.
#[derive(Debug)]
pub(crate) enum Output {
    /// Numpy arrays and scalars.
    Numpy,
    /// Tensors that a framework creates through DLPack; strings stay Python objects.
    Dlpack(Taker),
}

/// The functions that create a framework's tensors.
#[derive(Debug)]
pub(crate) struct Taker {
    /// The function that takes a capsule.
    take: Py<PyAny>,
    /// The C functions that take the tensor without a capsule.
    exchange: Option<Exchange>,
    is_versioned: bool,
    /// `true` if vectors of text become lists instead of arrays of objects.
    lists_text: bool,
}

impl Output {
    /// Returns an output that passes DLPack capsules to `take`, or numpy arrays if `take` is `None`.
    ///
    /// Attributes of `take` select options: `exchange` holds the framework's C functions.
    /// `is_versioned = False` asks for unversioned capsules. `lists_text = True` turns vectors of text into
    /// lists.
    pub(crate) fn new(py: Python<'_>, take: Option<Py<PyAny>>) -> PyResult<Output> {
        let Some(take) = take else {
            return Ok(Output::Numpy);
        };
        let exchange = take.bind(py).getattr_opt("exchange")?;
        let exchange = exchange.and_then(|capsule| Exchange::of(capsule.cast::<PyCapsule>().ok()?));
        let versioned = take.bind(py).getattr_opt("is_versioned")?;
        let is_versioned = versioned.is_none_or(|said| said.is_truthy().unwrap_or(true));
        let lists = take.bind(py).getattr_opt("lists_text")?;
        let lists_text = lists.is_some_and(|said| said.is_truthy().unwrap_or(false));
        Ok(Output::Dlpack(Taker {
            take,
            exchange,
            is_versioned,
            lists_text,
        }))
    }
}

/// The plan by which elements of one spec become Python objects.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// The layout of the spec, which all elements of one task share.
    layout: Arc<Layout>,
    root: Node,
}

#[derive(Debug)]
enum Node {
    Tensor {
        index: usize,
        descr: Py<PyAny>,
        /// `true` once a framework has accepted a tensor of this leaf.
        is_taken: Cell<bool>,
    },
    Text {
        index: usize,
    },
    Tuple(Vec<Node>),
    List(Vec<Node>),
    Dict(Vec<(Py<PyString>, Node)>),
    /// Parts from which a class of the package is created.
    Composite {
        class: Py<PyAny>,
        parts: Vec<Node>,
    },
    None,
}

/// The state of building one element.
struct Building<'a, 'py> {
    py: Python<'py>,
    element: &'a Element,
    output: &'a Output,
    is_writable: bool,
    /// The keeper of the slot, created for the first view.
    keeper: Option<Bound<'py, PyAny>>,
}

impl Assembly {
    /// Creates an assembly for elements of this layout.
    pub(crate) fn new(py: Python<'_>, layout: &Arc<Layout>) -> PyResult<Assembly> {
        let mut next = 0;
        let root = Node::new(py, layout.spec().structure(), layout.spec(), &mut next)?;
        Ok(Assembly {
            layout: layout.clone(),
            root,
        })
    }

    /// Returns whether the assembly fits this element. Tasks have layouts of their own, so the spec is
    /// compared as well.
    #[inline]
    pub(crate) fn suits(&self, element: &Element) -> bool {
        Arc::ptr_eq(&self.layout, element.layout()) || self.layout.spec() == element.spec()
    }

    /// Returns the element as a Python object. An `exclusive` element is visible to no other reader, so its
    /// arrays are writable.
    #[inline]
    pub(crate) fn build<'py>(
        &self,
        py: Python<'py>,
        element: &Element,
        output: &Output,
        exclusive: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut building = Building {
            py,
            element,
            output,
            is_writable: exclusive && !element.slot().is_shared(),
            keeper: None,
        };
        building.node(&self.root)
    }
}

impl Node {
    fn new(py: Python<'_>, structure: &Structure, spec: &ElementSpec, next: &mut usize) -> PyResult<Node> {
        let all = |py, items: &[Structure], next: &mut usize| -> PyResult<Vec<Node>> {
            items.iter().map(|item| Node::new(py, item, spec, next)).collect()
        };
        let composite = |name: &str, parts: usize, next: &mut usize| -> PyResult<Node> {
            let class = py.import("millstream._composites")?.getattr(name)?.unbind();
            let parts = all(py, &vec![Structure::Leaf; parts], next)?;
            Ok(Node::Composite { class, parts })
        };
        Ok(match structure {
            Structure::Leaf => Node::leaf(py, spec, next)?,
            Structure::Ragged { ragged_rank } => composite("Ragged", 1 + usize::from(*ragged_rank), next)?,
            Structure::Sparse => composite("Sparse", 3, next)?,
            Structure::Tuple(items) => Node::Tuple(all(py, items, next)?),
            Structure::List(items) => Node::List(all(py, items, next)?),
            Structure::Dict(entries) => {
                let entry = |(name, item): &(String, Structure)| -> PyResult<_> {
                    Ok((
                        PyString::intern(py, name).unbind(),
                        Node::new(py, item, spec, next)?,
                    ))
                };
                Node::Dict(entries.iter().map(entry).collect::<PyResult<_>>()?)
            }
            Structure::None => Node::None,
        })
    }

    fn leaf(py: Python<'_>, spec: &ElementSpec, next: &mut usize) -> PyResult<Node> {
        let index = *next;
        *next += 1;
        let component = spec.components().get(index);
        let dtype = component
            .ok_or_else(|| PyValueError::new_err("a spec lacks a component"))?
            .dtype();
        if dtype.item_bytes().is_none() {
            return Ok(Node::Text { index });
        }
        let described = py
            .import("millstream._dtypes")?
            .call_method1("numpy_dtype", (dtype.to_string(),))?;
        let descr = described.unbind();
        Ok(Node::Tensor {
            index,
            descr,
            is_taken: Cell::new(false),
        })
    }
}

impl<'py> Building<'_, 'py> {
    fn node(&mut self, node: &Node) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match node {
            Node::Tensor {
                index,
                descr,
                is_taken,
            } => match self.output {
                Output::Numpy => self.tensor(*index, descr.bind(py))?,
                Output::Dlpack(taker) => self.taken(*index, taker, is_taken)?,
            },
            Node::Dict(entries) => {
                let dict = PyDict::new(py);
                for (name, item) in entries {
                    dict.set_item(name.bind(py), self.node(item)?)?;
                }
                dict.into_any()
            }
            Node::Tuple(items) => PyTuple::new(py, self.all(items)?)?.into_any(),
            Node::List(items) => PyList::new(py, self.all(items)?)?.into_any(),
            Node::Text { index } => self.text(*index)?,
            Node::Composite { class, parts } => {
                let parts = self.all(parts)?;
                class.bind(py).call1(PyTuple::new(py, parts)?)?
            }
            Node::None => py.None().into_bound(py),
        })
    }

    fn all(&mut self, nodes: &[Node]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        nodes.iter().map(|node| self.node(node)).collect()
    }

    fn component(&self, index: usize) -> PyResult<TensorView<'_>> {
        self.element.component(index).ok_or_else(lacking)
    }

    #[inline]
    fn tensor(&mut self, index: usize, descr: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let element = self.element;
        let view = element.component(index).ok_or_else(lacking)?;
        let (dims, bytes) = (view.dims(), view.bytes());
        if dims.is_empty() {
            return npy::scalar(descr, bytes);
        }
        if bytes.len() <= COPY_BYTES_MAX {
            return array::copy(descr, dims, bytes);
        }
        let keeper = match &self.keeper {
            Some(keeper) => keeper,
            None => self
                .keeper
                .insert(array::keeper(self.py, element.slot().clone())?),
        };
        array::view(descr, dims, element.slot(), bytes, self.is_writable, keeper)
    }

    /// Returns a framework's tensor. Some frameworks ignore read-only memory, so shared elements are copied.
    #[inline]
    fn taken(&self, index: usize, taker: &Taker, is_taken: &Cell<bool>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.component(index)?;
        let (dtype, dims, bytes) = (view.dtype(), view.dims(), view.bytes());
        let exported = if self.is_writable && bytes.len() > COPY_BYTES_MAX {
            Exported::view(dtype, dims, self.element.slot(), bytes)?
        } else {
            Exported::copy(dtype, dims, bytes)?
        };
        // The first tensor of a leaf goes through a capsule, which frees the tensor if the framework rejects
        // it. The C function would leak a rejected tensor.
        match taker.exchange {
            Some(exchange) if is_taken.get() => exported.into_object(self.py, exchange),
            Some(_) | None => {
                let capsule = if taker.is_versioned {
                    exported.into_capsule(self.py)?
                } else {
                    exported.into_unversioned_capsule(self.py)?
                };
                let made = taker.take.bind(self.py).call1((capsule,))?;
                is_taken.set(true);
                Ok(made)
            }
        }
    }

    fn text(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let view = self.component(index)?;
        let strings = view
            .strings()
            .map_err(|error| raise("DataLossError", error.to_string()))?;
        let is_text = view.dtype() == Dtype::String;
        let item = |bytes: &[u8]| -> PyResult<Bound<'py, PyAny>> {
            if is_text {
                let text = std::str::from_utf8(bytes).map_err(|error| raise("DataLossError", error))?;
                Ok(PyString::new(self.py, text).into_any())
            } else {
                Ok(PyBytes::new(self.py, bytes).into_any())
            }
        };
        if view.dims().is_empty() {
            return item(strings.bytes(0).unwrap_or_default());
        }
        let items: Vec<_> = strings.iter().map(item).collect::<PyResult<_>>()?;
        match self.output {
            Output::Dlpack(taker) if taker.lists_text && view.dims().len() == 1 => {
                Ok(PyList::new(self.py, items)?.into_any())
            }
            Output::Numpy | Output::Dlpack(_) => objects(self.py, items, view.dims()),
        }
    }
}

/// Creates an array of Python objects.
pub(crate) fn objects<'py>(
    py: Python<'py>,
    items: Vec<Bound<'py, PyAny>>,
    dims: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let array = py.import("numpy")?.call_method1("empty", (items.len(), "O"))?;
    array.set_item(PySlice::full(py), PyList::new(py, items)?)?;
    array.call_method1("reshape", (PyTuple::new(py, dims)?,))
}

fn lacking() -> PyErr {
    raise("InternalError", "an element lacks a component")
}
