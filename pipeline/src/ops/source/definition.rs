//! The definition of `source`, a source that is written in Rust and registered by name.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::declared;
use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::params::{Params, SpecField};
use crate::graph::registry::Registry;
use crate::graph::registry::SourceSignature;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::{Given, Operation};
use crate::graph::units::Splitting;
use crate::graph::units::WITHOUT_SPLITS;
use std::ops::RangeInclusive;

/// The parameters of `source`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredSource {
    /// The name under which the source is registered.
    #[n(0)]
    pub name: String,
    /// The parameters of the source's factory.
    #[n(1)]
    pub params: Params,
    /// The signature of the source, if declared or resolved. `None` asks the registry.
    #[n(2)]
    pub declared: Option<SourceDeclaration>,
}

/// The signature of a registered source, written into the graph. A program without the source can then
/// still analyse the graph.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct SourceDeclaration {
    /// The spec of the source's elements.
    #[n(0)]
    pub spec: SpecField,
    /// The number of elements. `None` means that the number of elements is unknown.
    #[n(1)]
    pub count: Option<u64>,
    /// Whether the source never ends.
    #[n(2)]
    pub infinite: bool,
    /// Whether the source can be opened at any range of positions, which splits require.
    #[n(3)]
    pub indexable: bool,
}

impl RegisteredSource {
    /// Returns the signature that the graph declares, or else the signature in the registry.
    ///
    /// # Errors
    /// [`AnalysisError::Unknown`] if neither the graph nor the registry knows the source.
    pub(crate) fn signature(&self, registry: &dyn Registry) -> Result<SourceSignature, AnalysisError> {
        match &self.declared {
            None => registry.source(&self.name, &self.params),
            Some(known) => Ok(SourceSignature {
                spec: known.spec.0.clone(),
                cardinality: declared(known.count, known.infinite),
                indexable: known.indexable,
            }),
        }
    }
}

impl Operation for RegisteredSource {
    fn name(&self) -> &'static str {
        "source"
    }

    fn registered_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        (self.name == name).then_some(&mut self.params)
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn calls_in_turn(&self) -> bool {
        true
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("source", &self.name)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        Ok(self.signature(given.registry)?.spec)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(self.signature(given.registry)?.cardinality)
    }

    fn source_name(&self) -> String {
        self.name.clone()
    }

    fn splitting(&self, graph: &Graph, registry: &dyn Registry) -> Result<Splitting, AnalysisError> {
        let signature = self.signature(registry)?;
        Ok(match (signature.indexable, signature.cardinality) {
            (true, Cardinality::Finite(count)) => Splitting::Counted(graph.units(count)),
            (true, Cardinality::Infinite | Cardinality::Unknown) => Splitting::Whole(format!(
                "has an unknown number of elements: declare a finite count, or {WITHOUT_SPLITS}"
            )),
            (false, _) => Splitting::Whole(format!(
                "cannot be opened at a position: make it indexable, or {WITHOUT_SPLITS}"
            )),
        })
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        let signature = self.signature(resolution.registry())?;
        let (count, infinite) = match signature.cardinality {
            Cardinality::Finite(count) => (Some(count), false),
            Cardinality::Infinite => (None, true),
            Cardinality::Unknown => (None, false),
        };
        self.declared = Some(SourceDeclaration {
            spec: SpecField(signature.spec),
            count,
            infinite,
            indexable: signature.indexable,
        });
        Ok(())
    }
}

impl Graph {
    /// Returns the parameters of all sources registered as `name`, including those within functions.
    pub fn source_params(&self, name: &str) -> Vec<&Params> {
        let mut found = Vec::new();
        for node in self.nodes() {
            match node.op.of::<RegisteredSource>() {
                Some(source) if source.name == name => found.push(&source.params),
                Some(_) | None => {}
            }
            for (graph, _) in node.op.graphs() {
                found.extend(graph.source_params(name));
            }
        }
        found
    }

    /// Replaces the parameters of all sources registered as `name`, including those within functions.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn change_source_params<E>(
        &mut self,
        name: &str,
        change: &mut dyn FnMut(&Params) -> Result<Params, E>,
    ) -> Result<(), E> {
        for node in &mut self.nodes {
            if node
                .op
                .of::<RegisteredSource>()
                .is_some_and(|source| source.name == name)
                && let Some(source) = node.op.of_mut::<RegisteredSource>()
            {
                source.params = change(&source.params)?;
            }
            if !node.op.graphs().is_empty() {
                for graph in node.op.change().graphs_mut() {
                    graph.change_source_params(name, change)?;
                }
            }
        }
        Ok(())
    }
}

impl Dataset {
    /// Yields the elements of the source registered as `name`.
    ///
    /// Corresponds to `tf.data.Dataset.from_generator`. An element that does not match the source's
    /// signature is an error of the source. [`Dataset::on_error`] decides how the dataset handles
    /// errors.
    pub fn registered_source(name: impl Into<String>, params: Params) -> Dataset {
        Dataset::source(RegisteredSource {
            name: name.into(),
            params,
            declared: None,
        })
    }

    /// Yields the elements of a source registered as `name` on the workers, with a declared signature.
    /// Callers in whose program the source is not registered need this method.
    pub fn declared_source(name: impl Into<String>, params: Params, declared: SourceDeclaration) -> Dataset {
        Dataset::source(RegisteredSource {
            name: name.into(),
            params,
            declared: Some(declared),
        })
    }
}
