//! The facts about a dataset for the dispatcher: the pipeline's analysis, translated into types of the
//! control plane.
//!
//! The two planes do not know each other, so this file translates between them. Owns no state.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use millstream_control::{Cardinality, DatasetFacts, PlanError, Planner, SourcePlan, SplitPlan};
use millstream_element::ElementSpec;
use millstream_pipeline::exec::Functions;
use millstream_pipeline::graph::{
    AnalysisError, FileFormat, Params, Registry, ShardBy, Share, SourceSignature,
};
use millstream_pipeline::plan::{FileOrder, ListedItem};
use millstream_pipeline::storage::{FILE_VERSION_BYTES, FileVersion, Storage};
use millstream_pipeline::{graph, plan};

/// A planner that analyses definitions with the functions registered in this process.
#[derive(Debug, Clone)]
pub struct GraphPlanner {
    functions: Arc<Functions>,
    storage: Storage,
}

impl GraphPlanner {
    /// Creates a planner with these functions. Functions unknown to the planner must be declared in the
    /// definition, except predicates.
    pub fn new(functions: Arc<Functions>) -> Self {
        Self::with_storage(functions, Storage::default())
    }

    /// Creates a planner with these functions that lists the files of this storage.
    pub fn with_storage(functions: Arc<Functions>, storage: Storage) -> Self {
        Self { functions, storage }
    }
}

impl Planner for GraphPlanner {
    fn facts(&self, definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        let graph = decode(definition)?;
        let facts = graph
            .facts(&Declared(&self.functions))
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
            not_by_files: graph
                .sharded(ShardBy::Files, HALF)
                .err()
                .map(|error| error.to_string()),
            has_shard_hint: graph.has_shard_hint(),
            compression: graph.travel().map(|travel| travel.name().to_owned()),
        })
    }

    fn plan_splits(&self, definition: &[u8], repetition: u64) -> Result<SplitPlan, PlanError> {
        let graph = decode(definition)?;
        let plan = plan::plan_splits(&graph, &Declared(&self.functions), &self.storage)
            .map_err(|error| PlanError::Source(error.by("the dispatcher")))?;
        let order = FileOrder {
            // Every plan has a new key, so that two iterations use files without a seed in different orders.
            iteration: RandomState::new().hash_one(repetition),
            epoch: repetition,
        };
        let seed = RandomState::new().hash_one(repetition);
        let digests: Vec<_> = plan.sources.iter().map(plan::SourcePlan::files_digest).collect();
        Ok(to_control(&plan.shuffled(&graph, order), &digests, seed))
    }
}

/// The functions of this process, for datasets that run in other processes. An unknown predicate passes the
/// analysis, because a predicate does not change the spec. A worker without the predicate reports the error.
pub(crate) struct Declared<'a>(pub(crate) &'a Functions);

impl Registry for Declared<'_> {
    fn map(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        self.0.map(name, params, input)
    }

    fn filter(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<(), AnalysisError> {
        match self.0.filter(name, params, input) {
            Err(AnalysisError::Unknown { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    fn flat_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        self.0.flat_map(name, params, input)
    }

    fn source(&self, name: &str, params: &Params) -> Result<SourceSignature, AnalysisError> {
        self.0.source(name, params)
    }

    fn files(&self, format: &dyn FileFormat) -> Result<ElementSpec, AnalysisError> {
        self.0.files(format)
    }
}

/// A share that is not the whole dataset. The place of the division does not depend on the values.
const HALF: Share = Share {
    count: 2,
    index: 0,
    seed: 0,
};

/// Converts a split plan to the control plane's type, with the digest of each source's files, and the seed
/// that all tasks use.
fn to_control(plan: &plan::SplitPlan, digests: &[Option<u64>], seed: u64) -> SplitPlan {
    let sources = plan.sources.iter().zip(digests);
    let sources = sources.map(|(source, files)| match source {
        plan::SourcePlan::Counted { splits } => SourcePlan::Counted { splits: *splits },
        plan::SourcePlan::Listed { items } => {
            let items = items.iter().map(|item| {
                let version = item
                    .version
                    .map_or([0; FILE_VERSION_BYTES], FileVersion::to_bytes);
                (item.payload.clone(), version)
            });
            SourcePlan::listed_in_versions(items, *files)
        }
    });
    SplitPlan {
        sources: sources.collect(),
        seed,
    }
}

/// Converts a split plan to the pipeline's type.
pub(crate) fn to_pipeline(plan: &SplitPlan) -> plan::SplitPlan {
    let sources = plan.sources.iter().map(|source| match source {
        SourcePlan::Counted { splits } => plan::SourcePlan::Counted { splits: *splits },
        SourcePlan::Listed { items, .. } => plan::SourcePlan::Listed {
            items: items.iter().map(|item| ListedItem::new(item.to_vec())).collect(),
        },
    });
    plan::SplitPlan {
        sources: sources.collect(),
    }
}

fn decode(definition: &[u8]) -> Result<graph::Graph, PlanError> {
    graph::Graph::from_bytes(definition).map_err(|error| PlanError::Definition(error.to_string()))
}

#[cfg(test)]
mod tests {
    use millstream_pipeline::graph::Dataset;

    use super::*;

    #[test]
    fn a_predicate_known_here_states_its_input() {
        let definition = |name: &str| {
            let dataset = Dataset::range(0, 9, 1).filter(name, Params::none());
            dataset.graph().unwrap().to_bytes().unwrap()
        };
        let functions = Functions::new().with_filter("choosy", |_, _| Err("no numbers".to_owned()));
        let planner = GraphPlanner::new(Arc::new(functions));
        let facts = planner.facts(&definition("elsewhere")).unwrap();
        assert_eq!(facts.cardinality, Cardinality::Unknown);
        assert_eq!(facts.splittable, Ok(()));
        let plan = planner.plan_splits(&definition("elsewhere"), 0).unwrap();
        assert_eq!(plan.sources.len(), 1);
        let refused = planner.facts(&definition("choosy")).unwrap_err();
        assert!(refused.to_string().contains("no numbers"), "{refused}");
    }

    #[test]
    fn undeclared_columns_are_looked_up() {
        use millstream_pipeline::graph::{Columns, Numpy};

        let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/pipeline/tests/fixtures/points.npy");
        let dataset = Dataset::files(rows).npy(Numpy::rows(Columns::all()));
        let graph = dataset.graph().unwrap();
        let planner = GraphPlanner::new(Arc::default());
        let facts = planner.facts(&graph.to_bytes().unwrap()).unwrap();
        let declared = graph.described(&Functions::new()).unwrap();
        assert_ne!(declared, graph);
        assert_eq!(planner.facts(&declared.to_bytes().unwrap()).unwrap(), facts);
    }

    #[test]
    fn files_have_a_new_order_every_pass() {
        let directory = tempfile::tempdir().unwrap();
        for file in 0..30 {
            std::fs::write(directory.path().join(file.to_string()), b"").unwrap();
        }
        let planner = GraphPlanner::new(Arc::default());
        let planned = |seed, repetition| {
            let dataset = Dataset::files_shuffled(format!("{}/*", directory.path().display()), seed);
            let definition = dataset.graph().unwrap().to_bytes().unwrap();
            planner.plan_splits(&definition, repetition).unwrap()
        };
        assert_eq!(planned(Some(7), 1).sources, planned(Some(7), 1).sources);
        assert_ne!(planned(Some(7), 0).sources, planned(Some(7), 1).sources);
        assert_ne!(planned(None, 0).sources, planned(None, 0).sources);
        assert_ne!(planned(None, 0).sources, planned(None, 1).sources);
        assert_ne!(planned(None, 0).seed, planned(None, 0).seed);
    }
}
