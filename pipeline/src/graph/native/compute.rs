//! `compute`: what expressions make of the components.

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
    /// The treatment of the results.
    #[n(0)]
    pub outputs: Outputs,
    /// The expressions.
    #[n(1)]
    pub exprs: Vec<Named>,
    /// The nesting of results, for [`Outputs::Nested`] alone: a leaf each, in order. Only its structure
    /// counts.
    #[n(2)]
    pub nested: Option<SpecField>,
}

/// The treatment of the results of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Outputs {
    /// They take the place of components of their names, or join them in the dict that an element is.
    #[n(0)]
    Components,
    /// An element is a dict of them.
    #[n(1)]
    Dict,
    /// An element is a tuple of them.
    #[n(2)]
    Tuple,
    /// An element is the only one of them.
    #[n(3)]
    Single,
    /// An element is nested as [`Compute::nested`] says.
    #[n(4)]
    Nested,
}

/// An expression and what its result is called.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The name of the component; of a tuple or a single result there is none.
    #[n(0)]
    #[serde(default)]
    pub name: String,
    /// Expression that computes the component.
    #[n(1)]
    pub expr: Expr,
}

impl Compute {
    /// The expressions with dtypes and shapes, over elements of `input`.
    ///
    /// # Errors
    /// The reason, as text.
    pub(crate) fn typed(&self, input: &ElementSpec) -> Result<Typed, String> {
        typed(self.exprs.iter().map(|named| &named.expr), input)
    }

    /// Returns the component that each result replaces; `None` for a result that is a further component.
    ///
    /// # Errors
    /// The reason, as text, when a name is of no use in elements of `input`.
    pub(crate) fn places(&self, input: &ElementSpec) -> Result<Vec<Option<usize>>, String> {
        let place = |named: &Named| match (self.outputs, column_of(&named.name, input)) {
            (Outputs::Dict | Outputs::Tuple | Outputs::Single | Outputs::Nested, _) => Ok(None),
            (Outputs::Components, Ok(place)) => Ok(Some(place)),
            (Outputs::Components, Err(_)) if matches!(input.structure(), Structure::Dict(_)) => Ok(None),
            (Outputs::Components, Err(_)) => Err(format!(
                "elements are no dict, to which a component {:?} could be added: {input}; make one with map_exprs",
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
                "computes {} components; there can be 1 to {MAX_COMPONENTS}",
                self.exprs.len()
            ));
        }
        if self.outputs == Outputs::Single && self.exprs.len() != 1 {
            return Err(format!("computes {} components for one", self.exprs.len()));
        }
        let leaves = self.nested.as_ref().map(|spec| spec.0.components().len());
        if leaves != (self.outputs == Outputs::Nested).then_some(self.exprs.len()) {
            return Err(format!(
                "computes {} components for a structure of others",
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
                        (None, _) => return Err("elements are no dict".to_owned()),
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
