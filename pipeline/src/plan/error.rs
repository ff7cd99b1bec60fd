//! The error of an iteration that cannot be planned.

use thiserror::Error;

use crate::graph::AnalysisError;
use crate::storage::StorageError;

/// The reason why an iteration cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The files of a source cannot be listed.
    #[error("cannot list the files {pattern:?}: {reason}")]
    Files {
        /// The glob pattern of the files.
        pattern: String,
        /// The cause of the failure.
        reason: String,
    },
    /// The graph cannot be analysed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}

impl PlanError {
    /// Returns the text of the error with the process that failed, such as "the worker".
    pub fn by(&self, process: &str) -> String {
        match self {
            PlanError::Files { .. } => format!("{process} {self}"),
            PlanError::Analysis(error) => error.to_string(),
        }
    }
}

impl From<StorageError> for PlanError {
    fn from(error: StorageError) -> PlanError {
        PlanError::Files {
            pattern: error.path().to_owned(),
            reason: error.reason().to_owned(),
        }
    }
}
