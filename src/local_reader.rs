//! Executes a dataset in this process: the trainer's side of a distributed one.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{
    ExecContext, ExecError, Executor, Failures, Functions, OpenError, Pool, Stats, Value,
};
use millstream_pipeline::graph::{Dataset, Drawing, GraphError};
use thiserror::Error;

/// Why a dataset cannot be executed here.
#[derive(Debug, Error)]
pub enum LocalReaderError {
    /// The caller's chain of operations has a mistake.
    #[error(transparent)]
    Dataset(#[from] GraphError),
    /// A name is not registered here, a source is missing, or a part does not fit another.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system gives no thread.
    #[error(transparent)]
    Pool(ExecError),
}

/// Yields the elements of one pass over a dataset, on the thread that asks. What is parallel runs on threads
/// of its own.
#[derive(Debug)]
pub struct LocalReader {
    executor: Executor,
}

impl LocalReader {
    /// Opens a dataset for its pass number `epoch`, with `threads` for parallel maps. What is drawn without a
    /// seed is drawn again by every reader.
    ///
    /// # Errors
    /// [`LocalReaderError`] saying what is wrong or missing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use millstream::LocalReader;
    /// use millstream::pipeline::exec::Functions;
    /// use millstream::pipeline::graph::Dataset;
    ///
    /// let batches = Dataset::range(0, 10, 1).batch(4, false);
    /// let reader = LocalReader::open(batches, Arc::new(Functions::new()), 1, 0)?;
    /// assert_eq!(reader.count(), 3);
    /// # Ok::<(), millstream::LocalReaderError>(())
    /// ```
    pub fn open(
        dataset: Dataset,
        functions: Arc<Functions>,
        threads: usize,
        epoch: u64,
    ) -> Result<Self, LocalReaderError> {
        let graph = dataset.graph()?;
        let pool = Arc::new(Pool::new(threads).map_err(LocalReaderError::Pool)?);
        let context = ExecContext {
            epoch,
            measured: true,
            // The standard library's only source of randomness.
            ..ExecContext::new(RandomState::new().hash_one(epoch), functions, pool)
        };
        Ok(Self {
            executor: Executor::open(&graph, context)?,
        })
    }

    /// Returns the cost of each stage so far, and the stage that holds the others up.
    pub fn stats(&self) -> Option<Stats> {
        self.executor.stats()
    }

    /// Returns the failures so far that did not end the pipeline.
    pub fn failures(&self) -> Failures {
        self.executor.failures()
    }

    /// The dataset as it is executed, drawn as text or DOT, with what each stage cost so far.
    pub fn explain(&self) -> Drawing {
        self.executor.explain()
    }

    /// Returns the specification of its elements.
    pub fn spec(&self) -> &ElementSpec {
        self.executor.spec()
    }
}

impl Iterator for LocalReader {
    type Item = Result<Value, ExecError>;

    /// The next element's components, in the order of the spec. An error is repeated whenever asked.
    fn next(&mut self) -> Option<Self::Item> {
        self.executor
            .next()
            .map(|item| item.map(|item| item.value))
            .transpose()
    }
}
