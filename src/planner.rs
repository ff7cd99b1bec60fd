//! What the dispatcher learns of a dataset: the pipeline's analysis, in the control plane's words.
//!
//! The two planes do not know each other; this file translates. Owns no state.

use std::sync::Arc;

use millstream_control::{Cardinality, DatasetFacts, PlanError, Planner, SourcePlan, SplitPlan};
use millstream_pipeline::exec::Functions;
use millstream_pipeline::{graph, plan};

/// Analyses definitions with the functions registered in this process.
#[derive(Debug, Clone)]
pub struct GraphPlanner {
    functions: Arc<Functions>,
}

impl GraphPlanner {
    /// A planner that knows these functions. Names it does not know must be declared in the definition.
    pub fn new(functions: Arc<Functions>) -> Self {
        Self { functions }
    }
}

impl Planner for GraphPlanner {
    fn facts(&self, definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        let graph = decode(definition)?;
        let facts = graph
            .facts(&*self.functions)
            .map_err(|error| PlanError::Definition(error.to_string()))?;
        Ok(DatasetFacts {
            spec: facts.spec.to_bytes(),
            cardinality: match facts.cardinality {
                graph::Cardinality::Infinite => Cardinality::Infinite,
                graph::Cardinality::Unknown => Cardinality::Unknown,
                graph::Cardinality::Finite(elements) => Cardinality::Finite(elements),
            },
            splittable: facts.splittable,
            aligned: facts.aligned,
        })
    }

    fn plan_splits(&self, definition: &[u8]) -> Result<SplitPlan, PlanError> {
        let graph = decode(definition)?;
        let plan = plan::plan_splits(&graph, &*self.functions)
            .map_err(|error| PlanError::Source(error.to_string()))?;
        Ok(to_control(&plan))
    }
}

/// A split plan as the dispatcher keeps it.
fn to_control(plan: &plan::SplitPlan) -> SplitPlan {
    let sources = plan.sources.iter().map(|source| match source {
        plan::SourcePlan::Counted { splits } => SourcePlan::Counted { splits: *splits },
        plan::SourcePlan::Listed { items } => SourcePlan::listed(items.iter().cloned()),
    });
    SplitPlan {
        sources: sources.collect(),
    }
}

/// The same as the pipeline reads it.
pub(crate) fn to_pipeline(plan: &SplitPlan) -> plan::SplitPlan {
    let sources = plan.sources.iter().map(|source| match source {
        SourcePlan::Counted { splits } => plan::SourcePlan::Counted { splits: *splits },
        SourcePlan::Listed { items } => plan::SourcePlan::Listed {
            items: items.iter().map(|item| item.to_vec()).collect(),
        },
    });
    plan::SplitPlan {
        sources: sources.collect(),
    }
}

fn decode(definition: &[u8]) -> Result<graph::Graph, PlanError> {
    graph::Graph::from_bytes(definition).map_err(|error| PlanError::Definition(error.to_string()))
}
