//! `compute`: computes components by expressions.

use millstream_element::{ElementSpec, MAX_COMPONENTS, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::function::NativeFunction;
use crate::graph::check::check_name;
use crate::graph::expr::{Expr, ExprOp, Typed, column_of, typed};
use crate::graph::params::SpecField;

/// Parameters of `compute`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// The placement of the results in an element.
    #[n(0)]
    pub outputs: Outputs,
    /// The expressions.
    #[n(1)]
    pub exprs: Vec<Named>,
    /// The structure of the results, for [`Outputs::Nested`] only. The results become the leaves of the
    /// structure, in order. The leaves' dtypes and shapes are ignored.
    #[n(2)]
    pub nested: Option<SpecField>,
}

/// The placement of the results of expressions in an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Outputs {
    /// The results replace the components with their names, or become new components of an element that is a
    /// dict.
    #[n(0)]
    Components,
    /// An element is a dict of the results.
    #[n(1)]
    Dict,
    /// An element is a tuple of the results.
    #[n(2)]
    Tuple,
    /// An element is the single result.
    #[n(3)]
    Single,
    /// An element has the structure [`Compute::nested`].
    #[n(4)]
    Nested,
}

/// An expression and the name of its result.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The name of the component. A tuple, a nested or a single result ignores the name.
    #[n(0)]
    #[serde(default)]
    pub name: String,
    /// The expression that computes the component.
    #[n(1)]
    pub expr: Expr,
}

impl Compute {
    /// Infers the dtypes and shapes of the expressions for elements of `input`.
    ///
    /// # Errors
    /// The reason why an expression does not fit `input`, as text.
    pub(crate) fn typed(&self, input: &ElementSpec) -> Result<Typed, String> {
        typed(self.exprs.iter().map(|named| &named.expr), input)
    }

    /// Returns the position of the component that each result replaces; `None` for a result that becomes a
    /// new component.
    ///
    /// # Errors
    /// The reason, as text, if elements of `input` have no component of the name and are not dicts.
    pub(crate) fn places(&self, input: &ElementSpec) -> Result<Vec<Option<usize>>, String> {
        let place = |named: &Named| match (self.outputs, column_of(&named.name, input)) {
            (Outputs::Dict | Outputs::Tuple | Outputs::Single | Outputs::Nested, _) => Ok(None),
            (Outputs::Components, Ok(place)) => Ok(Some(place)),
            (Outputs::Components, Err(_)) if matches!(input.structure(), Structure::Dict(_)) => Ok(None),
            (Outputs::Components, Err(_)) => Err(format!(
                "expected a dict, to which the component {:?} can be added, found {input}; make a dict with map_exprs",
                named.name
            )),
        };
        self.exprs.iter().map(place).collect()
    }
}

impl NativeFunction for Compute {
    fn check(&self) -> Result<(), String> {
        if self.exprs.is_empty() || self.exprs.len() > MAX_COMPONENTS {
            return Err(format!(
                "computes {} components, expected 1 to {MAX_COMPONENTS}",
                self.exprs.len()
            ));
        }
        if self.outputs == Outputs::Single && self.exprs.len() != 1 {
            return Err(format!("computes {} components, expected 1", self.exprs.len()));
        }
        let leaves = self.nested.as_ref().map(|spec| spec.0.components().len());
        if leaves != (self.outputs == Outputs::Nested).then_some(self.exprs.len()) {
            return Err(format!(
                "computes {} components, expected as many as its structure has leaves",
                self.exprs.len()
            ));
        }
        for (index, named) in self.exprs.iter().enumerate() {
            named.expr.check()?;
            let unnamed = matches!(self.outputs, Outputs::Tuple | Outputs::Single | Outputs::Nested)
                || (self.outputs == Outputs::Components && named.name.is_empty());
            if unnamed && self.outputs != Outputs::Components {
                continue;
            }
            if !unnamed {
                check_name("component", &named.name)?;
            }
            if self.exprs[..index].iter().any(|other| other.name == named.name) {
                return Err(format!("computes the component {:?} twice", named.name));
            }
        }
        Ok(())
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let typed = self.typed(input)?;
        let specs: Vec<TensorSpec> = (0..self.exprs.len())
            .map(|index| typed.spec(index).clone())
            .collect();
        let names = self.exprs.iter().map(|named| named.name.clone());
        let spec = match self.outputs {
            Outputs::Single => ElementSpec::new(Structure::Leaf, specs),
            Outputs::Tuple => ElementSpec::tuple(specs),
            Outputs::Dict => ElementSpec::dict(names.zip(specs)),
            Outputs::Nested => {
                let nested = self.nested.as_ref().map(|spec| spec.0.structure().clone());
                ElementSpec::new(nested.unwrap_or(Structure::Leaf), specs)
            }
            Outputs::Components => {
                let mut components = input.components().to_vec();
                let mut structure = input.structure().clone();
                for (place, (name, spec)) in self.places(input)?.into_iter().zip(names.zip(specs)) {
                    match (place, &mut structure) {
                        (Some(place), _) => components[place] = spec,
                        (None, Structure::Dict(entries)) => {
                            entries.push((name, Structure::Leaf));
                            components.push(spec);
                        }
                        (None, _) => return Err("expected elements that are dicts".to_owned()),
                    }
                }
                ElementSpec::new(structure, components)
            }
        };
        spec.map_err(|error| error.to_string())
    }

    fn feature(&self) -> Option<&'static str> {
        let of = |named: &Named| {
            named
                .expr
                .nodes()
                .iter()
                .any(|node| matches!(&node.op, ExprOp::Text(text) if text.needs_regex()))
        };
        self.exprs.iter().any(of).then_some("text")
    }
}
