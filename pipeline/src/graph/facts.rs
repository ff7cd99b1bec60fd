//! The results of analysing a dataset without running it, in one value.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::cardinality::Cardinality;
use super::counting::cardinality;
use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::split::{self, SourceFacts};
use super::tree::Graph;

/// The facts about a dataset that the analysis infers.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The spec of the dataset's elements.
    pub spec: ElementSpec,
    /// The number of elements if a single task reads the whole dataset.
    pub cardinality: Cardinality,
    /// `Ok` if all sources can be divided into splits; otherwise the reason why a source cannot.
    pub splittable: Result<(), String>,
    /// `Ok` if every element states exactly the source positions that it was made from, so that a lost
    /// element can be produced again alone (`exactly_once`). Otherwise the reason why elements do not.
    pub aligned: Result<(), String>,
    /// The sources in depth-first order. The index in this list is the `source` of a split.
    pub sources: Vec<SourceFacts>,
}

impl Graph {
    /// Analyses the graph: infers spec, cardinality, sources and alignment.
    ///
    /// # Errors
    /// [`AnalysisError`] that names an operation that does not fit its input, or a function that is not
    /// registered.
    pub fn facts(&self, registry: &dyn Registry) -> Result<Facts, AnalysisError> {
        let mut specs = node_specs(self, registry, None)?;
        let cardinality = cardinality(self, &specs, registry)?;
        let sources = split::sources(self, registry)?;
        let spec = specs.swap_remove(self.output());
        let splittable = split::splittable(&sources).and_then(|()| split::keeps_nothing_apart(self));
        let aligned = split::aligned(self, &sources);
        Ok(Facts {
            spec,
            cardinality,
            splittable,
            aligned,
            sources,
        })
    }
}
