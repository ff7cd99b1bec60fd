//! The files of a source of files: those that its pattern matches, or the shards in the indexes that it
//! matches.

use crate::graph::Files;
use crate::storage::{FILES_MAX, Listed, Storage};

use super::error::PlanError;

/// The files of `files`, in order.
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
                "the indexes list more than {FILES_MAX} shards, which is the limit"
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
    Err("indexes of shards are not built in: build with the feature \"mds\"".to_owned())
}
