//! Columns by their names: the columns that a dataset wants, and the columns of a spec.

use millstream_element::{ElementSpec, Structure};

/// Returns the wanted columns among the columns `there`: all of them if `names` is empty.
pub(crate) fn wanted(names: &[String], there: &[String]) -> Result<Vec<String>, String> {
    if names.is_empty() {
        return Ok(there.to_vec());
    }
    match names.iter().find(|name| !there.contains(name)) {
        Some(missing) => Err(format!(
            "the file has no column {missing:?}; it has: {}",
            there.join(", ")
        )),
        None => Ok(names.to_vec()),
    }
}

/// Returns the outermost names of an element that is a dict.
pub(crate) fn names_of(spec: &ElementSpec) -> Vec<String> {
    if let Structure::Dict(entries) = spec.structure() {
        entries.iter().map(|(name, _)| name.clone()).collect()
    } else {
        Vec::new()
    }
}
