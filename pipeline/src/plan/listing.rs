//! The files of a `files` source: the files that match its pattern, or the shards that matching index files
//! list.

use crate::graph::Files;
use crate::storage::{FILES_MAX, Listed, Storage};

use super::error::PlanError;

/// Returns the files of the source `files`, in order.
pub(crate) fn listed(files: &Files, storage: &Storage) -> Result<Vec<Listed>, PlanError> {
    let found = storage.list(&files.pattern)?;
    if files.are_indexes != Some(true) {
        return Ok(found);
    }
    let refused = |reason: String| PlanError::Files {
        pattern: files.pattern.clone(),
        reason,
    };
    let mut all = Vec::new();
    for index in found {
        all.extend(shards(storage, &index.path).map_err(refused)?);
        if all.len() > FILES_MAX {
            return Err(refused(format!(
                "the index files list more than {FILES_MAX} shards, which is the limit"
            )));
        }
    }
    Ok(all)
}

#[cfg(feature = "mds")]
fn shards(storage: &Storage, index: &str) -> Result<Vec<Listed>, String> {
    crate::exec::shards(storage, index)
}

#[cfg(not(feature = "mds"))]
fn shards(_: &Storage, _: &str) -> Result<Vec<Listed>, String> {
    Err("this build cannot read index files of shards: build with the feature \"mds\"".to_owned())
}
