//! The key by which this process proves who it is: from the environment, else the user's own file. And the
//! version.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use millstream::LocalWorkers;
use millstream::link::{KeySource, LoadedKey};
use millstream::pipeline::exec::Functions;
use pyo3::prelude::*;

use crate::failure::raise;
use crate::{code, fork, notices};

fn source() -> PyResult<KeySource> {
    KeySource::from_environment(|name| std::env::var_os(name))
        .map_err(|error| raise("PermissionDeniedError", error))
}

/// Names a file of revoked certificates and keys.
const REVOKED_VARIABLE: &str = "MILLSTREAM_REVOKED";

/// Returns the key, which is made on first use where none was given, and the list of those whom this process
/// refuses.
pub(crate) fn load() -> PyResult<LoadedKey> {
    let loaded = source()?
        .load()
        .map_err(|error| raise("PermissionDeniedError", error))?;
    let Some(path) = std::env::var_os(REVOKED_VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(loaded);
    };
    loaded
        .refusing(Path::new(&path))
        .map_err(|error| raise("PermissionDeniedError", format!("{REVOKED_VARIABLE}: {error}")))
}

/// The file that this process takes its key from; `None` where the environment has the key itself.
#[pyfunction]
pub(crate) fn key_path() -> PyResult<Option<String>> {
    Ok(match source()? {
        KeySource::File(path) | KeySource::OwnFile(path) => Some(path.display().to_string()),
        KeySource::Text(_) => None,
    })
}

/// The version of Millstream.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The functions that datasets may name where they are run in this process: the reader of services among
/// them, and Python's.
pub(crate) fn functions() -> PyResult<Arc<Functions>> {
    let builtin = millstream::functions::builtin_beside(Some(&load()?), local_workers(), notices::hooks()?);
    Ok(Arc::new(code::within(builtin)))
}

/// The functions that datasets may name on a server: as [`functions`], but Python's are run by processes of
/// `python`; `inline`, in this one.
pub(crate) fn functions_of_server(python: Option<&str>) -> PyResult<Arc<Functions>> {
    if python == Some("inline") {
        return functions();
    }
    let builtin = millstream::functions::builtin_beside(Some(&load()?), local_workers(), notices::hooks()?);
    Ok(Arc::new(code::beside(builtin, python)?))
}

/// The workers of this process, whom its readers reach without a network. A forked child has its own; the
/// parent's are left alone, since their lock may be held for ever.
pub(crate) fn local_workers() -> LocalWorkers {
    static LOCAL: AtomicPtr<(u32, LocalWorkers)> = AtomicPtr::new(std::ptr::null_mut());
    let generation = fork::generation();
    // Leaked: one for each generation of a process, of which there are few.
    let leak = || Box::leak(Box::new((generation, LocalWorkers::default())));
    let mut known = LOCAL.load(Ordering::Acquire);
    loop {
        if let Some(workers) = fork::of_generation(known, generation) {
            return workers.clone();
        }
        let fresh: *mut (u32, LocalWorkers) = leak();
        match LOCAL.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => known = fresh,
            Err(other) => known = other,
        }
    }
}
