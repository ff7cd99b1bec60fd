//! The records of the source from which an element of an exactly-once epoch was made. The answer comes from
//! the definition of the dataset. Refuses to read elements.

use std::ops::Range;

use millstream_pipeline::exec::{Functions, SplitRecords};
use millstream_pipeline::graph::{AnalysisError, FilePart, Graph, SplitCounts, Splitting};
use millstream_pipeline::plan::{FileOrder, PlanError, SourcePlan, plan_splits};
use millstream_pipeline::storage::Storage;

use crate::planner::Declared;

/// The records from which one element was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The number of the split in the source.
    pub split: u64,
    /// The position of the element among the elements that the dataset yields on the split.
    pub position: u64,
    /// The positions of the split, in the order in which the epoch reads the source; `None` for files.
    pub split_positions: Option<Range<u64>>,
    /// The places of the records in the source, in the order in which the element contains them. `None` if
    /// the places are unknown.
    pub records: Option<Vec<u64>>,
    /// Whether `records` are exactly the records of the element. Otherwise they are those of the whole split,
    /// because an operation such as a filter decides which of them the element contains.
    pub is_exact: bool,
    /// The file of the split, if splits are files.
    pub file: Option<RecordsFile>,
}

/// A file, or a part of a file, that is one split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsFile {
    /// The path or URL of the file.
    pub path: String,
    /// The range of bytes in which the records of the split begin; `None` for the whole file.
    pub bytes: Option<Range<u64>>,
}

/// The records of all splits of one epoch.
#[derive(Debug)]
pub struct EpochLineage {
    graph: Graph,
    functions: Functions,
    epoch: u64,
    /// The payloads of the splits, which are empty unless splits are files. An error if this process cannot
    /// list the files.
    files: Result<Vec<Vec<u8>>, PlanError>,
}

impl EpochLineage {
    /// Returns the records of an epoch. The dataset must have the form of [`Graph::for_exactly_once`]. Lists
    /// the files of the dataset, and blocks on `storage` meanwhile.
    ///
    /// The files must be those of the epoch: a file that was added or removed since changes the answer. If
    /// this process cannot list the files, [`EpochLineage::files_error`] tells the reason.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn new(
        graph: Graph,
        functions: Functions,
        epoch: u64,
        storage: &Storage,
    ) -> Result<EpochLineage, AnalysisError> {
        let facts = graph.facts(&Declared(&functions))?;
        let is_listed = |splitting: &Splitting| match splitting {
            Splitting::Listed => true,
            Splitting::Counted(_) | Splitting::Whole(_) => false,
        };
        let mut found = EpochLineage::without_files(graph, functions, epoch);
        if facts
            .sources
            .first()
            .is_some_and(|source| is_listed(&source.splitting))
        {
            found.files = files_of(&found.graph, &found.functions, epoch, storage);
        }
        Ok(found)
    }

    /// Returns the records of an epoch without the files of splits, which are not listed. The dataset must
    /// have the form of [`Graph::for_exactly_once`].
    pub fn without_files(graph: Graph, functions: Functions, epoch: u64) -> EpochLineage {
        EpochLineage {
            graph,
            functions,
            epoch,
            files: Ok(Vec::new()),
        }
    }

    /// Returns the numbers of elements of the splits. Returns `None` if an operation such as a filter, or the
    /// content of a file, decides these numbers.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn split_counts(&self) -> Result<Option<SplitCounts>, AnalysisError> {
        self.graph.split_counts(&Declared(&self.functions))
    }

    /// Returns the reason why this process cannot name the files of splits.
    pub fn files_error(&self) -> Option<&PlanError> {
        self.files.as_ref().err()
    }

    /// Returns the records of the element at a position among the elements of a split.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn of(&self, split: u64, position: u64) -> Result<Lineage, AnalysisError> {
        let registry = Declared(&self.functions);
        let found = SplitRecords::of(&self.graph, &registry, self.epoch, split)?;
        let records = found.as_ref().and_then(|found| found.of_element(position));
        Ok(Lineage {
            split,
            position,
            is_exact: records.as_ref().is_some_and(|(_, is_exact)| *is_exact),
            records: records.map(|(records, _)| records),
            split_positions: found.map(|found| found.positions),
            file: self.file(split),
        })
    }

    fn file(&self, split: u64) -> Option<RecordsFile> {
        let payload = self.files.as_ref().ok()?.get(usize::try_from(split).ok()?)?;
        let part = FilePart::of(std::str::from_utf8(payload).ok()?);
        Some(RecordsFile {
            path: part.path.to_owned(),
            bytes: part.range,
        })
    }
}

/// Lists the files that are the splits of an epoch, in their order.
fn files_of(
    graph: &Graph,
    functions: &Functions,
    epoch: u64,
    storage: &Storage,
) -> Result<Vec<Vec<u8>>, PlanError> {
    // The seed of the job stands in all operations without a seed, so the iteration has no effect.
    let order = FileOrder { iteration: 0, epoch };
    let plan = plan_splits(graph, &Declared(functions), storage)?.shuffled(graph, order);
    Ok(match plan.sources.into_iter().next() {
        Some(SourcePlan::Listed { items }) => items.into_iter().map(|item| item.payload).collect(),
        Some(SourcePlan::Counted { .. }) | None => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use millstream_pipeline::graph::Dataset;

    use super::*;

    fn lineage(dataset: Dataset, epoch: u64) -> EpochLineage {
        let functions = Functions::new();
        let graph = dataset.graph().unwrap().for_exactly_once(7, &functions).unwrap();
        EpochLineage::new(graph, functions, epoch, &Storage::default()).unwrap()
    }

    #[test]
    fn epochs_of_a_shuffle_have_other_records() {
        let records = |epoch| {
            let dataset = Dataset::range(0, 100, 1).shuffle(100, None).batch(10, false);
            lineage(dataset, epoch).of(3, 0).unwrap().records.unwrap()
        };
        assert_eq!(records(0), records(0));
        assert_ne!(records(0), records(1));
    }

    #[test]
    fn splits_of_files_name_their_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.txt", "b.txt"] {
            std::fs::write(folder.path().join(name), "one\ntwo\n").unwrap();
        }
        let pattern = folder.path().join("*.txt").to_str().unwrap().to_owned();
        let found = lineage(Dataset::files(pattern).text_lines().batch(2, false), 0);
        assert_eq!(found.split_counts().unwrap(), None);
        let second = found.of(1, 0).unwrap();
        let path = folder.path().join("b.txt").to_str().unwrap().to_owned();
        assert_eq!(second.file, Some(RecordsFile { path, bytes: None }));
        assert_eq!(
            (second.split_positions, second.records, second.is_exact),
            (None, None, false)
        );
        assert_eq!(found.of(2, 0).unwrap().file, None, "the dataset has two files");
    }

    #[test]
    fn missing_files_leave_their_error() {
        let found = lineage(Dataset::files("/nowhere/*.txt"), 0);
        assert_eq!(found.of(0, 0).unwrap().file, None);
        let error = found.files_error().unwrap().to_string();
        assert!(error.contains("/nowhere/*.txt"), "{error}");
    }
}
