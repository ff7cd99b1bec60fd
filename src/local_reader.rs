//! Executes a dataset in this process, for example the part of a distributed dataset that runs in the
//! trainer.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{
    ExecContext, ExecError, Executor, Failures, Functions, OpenError, Pool, Stats, Value,
};
use millstream_pipeline::graph::{Dataset, Drawing, GraphError};
use thiserror::Error;

/// The reason why a dataset cannot be executed in this process.
#[derive(Debug, Error)]
pub enum LocalReaderError {
    /// The caller's chain of operations has a mistake.
    #[error(transparent)]
    Dataset(#[from] GraphError),
    /// A name is not registered in this process, a source is missing, or two operations do not fit together.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused to start a thread.
    #[error(transparent)]
    Pool(ExecError),
}

/// An iterator over the elements of one pass over a dataset, which runs on the caller's thread. Parallel
/// operations run on their own threads.
#[derive(Debug)]
pub struct LocalReader {
    executor: Executor,
}

impl LocalReader {
    /// Opens pass number `epoch` of a dataset, with `threads` threads for parallel maps. Operations without a
    /// seed draw other random numbers in each reader.
    ///
    /// # Errors
    /// [`LocalReaderError`] names the mistake or the missing part.
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
            // `RandomState` is the only source of randomness in the standard library.
            ..ExecContext::new(RandomState::new().hash_one(epoch), functions, pool)
        };
        Ok(Self {
            executor: Executor::open(&graph, context)?,
        })
    }

    /// Returns the cost of each stage so far, and the bottleneck.
    pub fn stats(&self) -> Option<Stats> {
        self.executor.stats()
    }

    /// Returns the failures so far that did not end the pipeline.
    pub fn failures(&self) -> Failures {
        self.executor.failures()
    }

    /// Returns the drawing of the dataset as it is executed, with the cost of each stage so far. The drawing
    /// prints as text or DOT.
    pub fn explain(&self) -> Drawing {
        self.executor.explain()
    }

    /// Returns the specification of the dataset's elements.
    pub fn spec(&self) -> &ElementSpec {
        self.executor.spec()
    }
}

impl Iterator for LocalReader {
    type Item = Result<Value, ExecError>;

    /// Returns the components of the next element, in the order of the spec. After an error, every call
    /// returns the same error.
    fn next(&mut self) -> Option<Self::Item> {
        self.executor
            .next()
            .map(|item| item.map(|item| item.value))
            .transpose()
    }
}
