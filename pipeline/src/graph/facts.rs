//! Everything that can be said of a dataset without running it, in one value.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::cardinality::Cardinality;
use super::counting::cardinality;
use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::split::{self, SourceFacts};
use super::tree::Graph;

/// The facts that the analysis finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The spec of the dataset's elements.
    pub spec: ElementSpec,
    /// The number of its elements when one task reads all of it.
    pub cardinality: Cardinality,
    /// Whether its sources can be dealt out in splits; else the reason why not.
    pub splittable: Result<(), String>,
    /// Whether every element states exactly the source positions it stands for, so that a lost one can be
    /// produced again alone (`exactly_once`); else the reason why not.
    pub aligned: Result<(), String>,
    /// The sources, depth first: the index in this list is the `source` of a split.
    pub sources: Vec<SourceFacts>,
}

impl Graph {
    /// Analyses the graph.
    ///
    /// # Errors
    /// [`AnalysisError`] naming the operation that does not fit its input, or the function nobody registered.
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
