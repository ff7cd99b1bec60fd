//! How the sources of a graph are dealt out in splits, and whether elements stay aligned with source positions.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use super::definition::Graph;
use super::error::AnalysisError;
use super::facts::Cardinality;
use super::op::{Files, Op};
use super::registry::Registry;
use super::spec::source_signature;

/// What to do with a source that cannot be dealt out.
const WITHOUT_SPLITS: &str = "use the sharding policy `off`, under which every worker reads all of it";

/// One source of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFacts {
    /// The index of its node.
    pub node: usize,
    /// What it is called: the operation, or the registered name.
    pub name: String,
    /// How it is dealt out.
    pub splitting: Splitting,
}

/// How a source is dealt out.
#[derive(Debug, Clone, PartialEq)]
pub enum Splitting {
    /// In ranges of positions.
    Counted(Units),
    /// One file a split, or a part of one where the reader can; which files there are is found out when an iteration is planned.
    Listed(Files),
    /// It cannot be: the reason.
    Whole(String),
}

/// Positions dealt out in ranges of a fixed size: a pure function of their number, so that every worker and the
/// dispatcher agree without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    positions: u64,
    unit: u64,
}

/// Splits a source is cut into, where it has as many positions: enough to balance workers, and few enough
/// that one element made of all of them can name them in its header.
const SPLITS_WANTED: u64 = 1024;
/// Positions a split has at most, which bounds what one lost split costs.
pub const SPLIT_SIZE_MAX: u64 = 4096;

impl Units {
    /// The units of a source of so many positions: `positions / 1024` positions each, rounded up, but at most
    /// 4096.
    pub fn of(positions: u64) -> Units {
        Units::sized(positions, positions.div_ceil(SPLITS_WANTED))
    }

    /// Units of `unit` positions each, 1 to [`SPLIT_SIZE_MAX`], the last perhaps of fewer.
    pub fn sized(positions: u64, unit: u64) -> Units {
        let unit = unit.clamp(1, SPLIT_SIZE_MAX);
        Units { positions, unit }
    }

    /// Positions of the source.
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// How many splits there are.
    pub fn splits(&self) -> u64 {
        self.positions.div_ceil(self.unit)
    }

    /// The positions of split `index`. `None` if there is no such split.
    pub fn range(&self, index: u64) -> Option<Range<u64>> {
        let start = index
            .checked_mul(self.unit)
            .filter(|start| *start < self.positions)?;
        Some(start..start.saturating_add(self.unit).min(self.positions))
    }
}

/// The sources of `graph`, depth first.
///
/// # Errors
/// [`AnalysisError`] for a source nobody registered.
pub(crate) fn sources(graph: &Graph, registry: &dyn Registry) -> Result<Vec<SourceFacts>, AnalysisError> {
    let mut found = Vec::new();
    for node in graph.sources() {
        let op = &graph.nodes()[node].op;
        let name = if let Op::Source(source) = op {
            source.name.clone()
        } else {
            op.name().to_owned()
        };
        found.push(SourceFacts {
            node,
            name,
            splitting: splitting(graph, op, registry)?,
        });
    }
    Ok(found)
}

/// Whether all of `sources` can be dealt out.
pub(crate) fn splittable(sources: &[SourceFacts]) -> Result<(), String> {
    for source in sources {
        match &source.splitting {
            Splitting::Counted(_) | Splitting::Listed(_) => {}
            Splitting::Whole(reason) => return Err(format!("source {:?} {reason}", source.name)),
        }
    }
    Ok(())
}

/// Whether no operation of `graph` keeps in files what would be a task's splits of the moment.
pub(crate) fn keeps_nothing_apart(graph: &Graph) -> Result<(), String> {
    let is_in_files = |op: &Op| matches!(op, Op::Kept(kept) if kept.is_in_files());
    match graph.nodes().iter().find(|node| is_in_files(&node.op)) {
        Some(node) => Err(format!(
            "operation {:?} would keep in files only what one task was dealt: {WITHOUT_SPLITS}",
            node.op.name()
        )),
        None => Ok(()),
    }
}

/// Whether the elements of `graph` state exactly the positions they stand for.
pub(crate) fn aligned(graph: &Graph, sources: &[SourceFacts]) -> Result<(), String> {
    splittable(sources)?;
    for node in graph.nodes() {
        if let Some(reason) = misaligns(&node.op, graph.is_deterministic()) {
            return Err(format!("operation {:?} {reason}", node.op.name()));
        }
    }
    Ok(())
}

fn splitting(graph: &Graph, op: &Op, registry: &dyn Registry) -> Result<Splitting, AnalysisError> {
    Ok(match op {
        Op::Range(range) => Splitting::Counted(graph.units(range.len())),
        // Values follow from their positions, of which there are more than anyone reads.
        Op::Counter(_) | Op::Random(_) => Splitting::Counted(graph.units(u64::MAX)),
        Op::Tensors(_) => Splitting::Counted(graph.units(1)),
        Op::TensorSlices(slices) => match slices.constant.slices() {
            Ok(count) => Splitting::Counted(graph.units(count)),
            Err(reason) => Splitting::Whole(reason),
        },
        Op::Files(files) => Splitting::Listed(files.clone()),
        Op::Source(source) => {
            let signature = source_signature(source, registry)?;
            match (signature.indexable, signature.cardinality) {
                (true, Cardinality::Finite(count)) => Splitting::Counted(graph.units(count)),
                (true, Cardinality::Infinite | Cardinality::Unknown) => Splitting::Whole(format!(
                    "does not know how many elements it has: declare a finite count, or {WITHOUT_SPLITS}"
                )),
                (false, _) => Splitting::Whole(format!(
                    "cannot be opened at a position: make it indexable, or {WITHOUT_SPLITS}"
                )),
            }
        }
        Op::Service(_) => Splitting::Whole(format!(
            "reads another service, which deals out its own splits: deal out the dataset that one reads, or \
                 {WITHOUT_SPLITS}"
        )),
        Op::Argument
        | Op::Map(..)
        | Op::Filter(_)
        | Op::Read(_)
        | Op::Batch(_)
        | Op::PaddedBatch(_)
        | Op::RaggedBatch(_)
        | Op::GroupByWindow(_)
        | Op::Window(..)
        | Op::Bucket(..)
        | Op::TakeWhile(_)
        | Op::Unbatch
        | Op::Shuffle(_)
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Shard(_)
        | Op::Enumerate(_)
        | Op::Prefetch(_)
        | Op::Options(_)
        | Op::Step(_)
        | Op::Fold(_)
        | Op::Kept(_)
        | Op::FlatMap(_)
        | Op::Interleave(..)
        | Op::Zip(_)
        | Op::Concatenate
        | Op::Sample(_)
        | Op::Choose(..) => Splitting::Whole("is not a source".to_owned()),
    })
}

/// Why positions cannot be followed through `op`, of a dataset whose options say `deterministic`.
fn misaligns(op: &Op, deterministic: bool) -> Option<&'static str> {
    match op {
        Op::Map(_, schedule) if !schedule.is_ordered(deterministic) => {
            Some("yields results in no particular order")
        }
        Op::Step(step) => step.misaligns(),
        Op::Fold(fold) => Some(fold.misaligns()),
        Op::Kept(_) => Some("yields in a pass what it kept of another"),
        Op::Shuffle(_) | Op::GroupByWindow(_) | Op::Bucket(..) => Some("mixes positions"),
        Op::TakeWhile(_) | Op::Take(_) | Op::Skip(_) | Op::Shard(_) => {
            Some("counts elements of each task, not positions of the source")
        }
        Op::FlatMap(_) | Op::Interleave(..) | Op::Window(..) | Op::Unbatch => {
            Some("makes several elements of one position")
        }
        Op::Enumerate(_) => Some("numbers the elements of each task"),
        Op::Sample(_) | Op::Choose(..) => Some("picks by how many elements a task has had"),
        Op::Zip(_) => Some("pairs whatever splits a task was dealt"),
        Op::Read(_) => Some("reads a file from its start and cannot be opened at a position"),
        Op::Range(_)
        | Op::Counter(_)
        | Op::Random(_)
        | Op::Tensors(_)
        | Op::TensorSlices(_)
        | Op::Files(_)
        | Op::Source(_)
        | Op::Service(_)
        | Op::Argument
        | Op::Map(..)
        | Op::Filter(_)
        | Op::Batch(_)
        | Op::PaddedBatch(_)
        | Op::RaggedBatch(_)
        | Op::Repeat(_)
        | Op::Prefetch(_)
        | Op::Options(_)
        | Op::Concatenate => None,
    }
}
