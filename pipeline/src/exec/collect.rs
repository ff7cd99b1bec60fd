//! Execution of a small dataset to its end, for examples, tests, and a look at a dataset's elements.

use std::sync::Arc;

use thiserror::Error;

use super::context::ExecContext;
use super::error::ExecError;
use super::executor::Executor;
use super::functions::Functions;
use super::pool::Pool;
use super::program::OpenError;
use super::value::Value;
use crate::graph::{Dataset, GraphError};

/// Reason why a dataset could not be collected.
#[derive(Debug, Error)]
pub enum CollectError {
    /// The chain of operations has a mistake.
    #[error(transparent)]
    Dataset(#[from] GraphError),
    /// The dataset cannot be executed here.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The execution failed.
    #[error(transparent)]
    Execution(#[from] ExecError),
}

/// Executes a dataset on this thread, and returns its first elements, at most `limit`.
///
/// Registered functions and services are not available here; [`Executor`] takes them from its context.
///
/// # Errors
/// [`CollectError`] states which part of the dataset failed.
///
/// ```
/// use millstream_pipeline::exec::collect;
/// use millstream_pipeline::graph::Dataset;
///
/// let elements = collect(Dataset::range(0, 5, 1).batch(2, false), 100)?;
/// assert_eq!(elements.len(), 3);
/// assert_eq!(elements[2][0].dims(), [1]);
/// # Ok::<(), millstream_pipeline::exec::CollectError>(())
/// ```
pub fn collect(dataset: Dataset, limit: usize) -> Result<Vec<Value>, CollectError> {
    let graph = dataset.graph()?;
    let pool = Arc::new(Pool::new(1)?);
    let mut executor = Executor::open(&graph, ExecContext::new(0, Arc::new(Functions::default()), pool))?;
    let mut found = Vec::new();
    while found.len() < limit {
        match executor.next()? {
            Some(item) => found.push(item.value),
            None => break,
        }
    }
    Ok(found)
}
