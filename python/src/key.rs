//! The key that identifies this process, from the environment or from the user's own file; and the version.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use millstream::LocalWorkers;
use millstream::client::WaitClock;
use millstream::link::{KeyMaterial, KeySource, LoadedKey, Role};
use millstream::pipeline::exec::Functions;
use pyo3::prelude::*;

use crate::failure::raise;
use crate::probe::Probe;
use crate::{code, fork, notices};

fn source() -> PyResult<KeySource> {
    KeySource::from_environment(|name| std::env::var_os(name))
        .map_err(|error| raise("PermissionDeniedError", error))
}

/// The variable that names a file of revoked certificates and keys.
const REVOKED_VARIABLE: &str = "MILLSTREAM_REVOKED";

/// Returns the key and the list of revoked certificates and keys. Creates the user's own key if no other key
/// is set and the file is missing.
pub(crate) fn load() -> PyResult<LoadedKey> {
    let loaded = source()?.load().map_err(|error| {
        let class = if error.is_missing() {
            "NotFoundError"
        } else {
            "PermissionDeniedError"
        };
        raise(class, error)
    })?;
    let Some(path) = std::env::var_os(REVOKED_VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(loaded);
    };
    loaded
        .refusing(Path::new(&path))
        .map_err(|error| raise("PermissionDeniedError", format!("{REVOKED_VARIABLE}: {error}")))
}

/// Returns the path of the file with this process's key, or `None` if the environment contains the key
/// itself.
#[pyfunction]
pub(crate) fn key_path() -> PyResult<Option<String>> {
    Ok(match source()? {
        KeySource::File(path) | KeySource::OwnFile(path) => Some(path.display().to_string()),
        KeySource::Text(_) => None,
    })
}

/// Returns the key of a role as text, derived from this process's cluster key.
#[pyfunction]
pub(crate) fn role_key(role: &str) -> PyResult<String> {
    let role: Role = role
        .parse()
        .map_err(|error| raise("InvalidArgumentError", error))?;
    match load()?.keys.own {
        KeyMaterial::Cluster(key) => Ok(key.role_key(role).to_text()),
        KeyMaterial::Role(key) => Err(raise(
            "PermissionDeniedError",
            format!(
                "this process has a key of the role {}, from which no key of the role {role} can be derived: \
                 set MILLSTREAM_KEY to the file of the cluster key",
                key.role()
            ),
        )),
    }
}

/// Returns the version of Millstream.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the functions that datasets in this process may name, including the service reader and users'
/// Python code. `probe` sees the readers of services, and `user_waits` counts the waits of their user.
pub(crate) fn functions(
    probe: Option<Arc<Probe>>,
    user_waits: Option<Arc<WaitClock>>,
) -> PyResult<Arc<Functions>> {
    let hooks = notices::hooks(probe, user_waits)?;
    let builtin = millstream::functions::builtin_beside(Some(&load()?), local_workers(), hooks);
    Ok(Arc::new(code::within(builtin)))
}

/// Returns the functions that datasets on a server may name. Processes of the interpreter `python` run users'
/// Python code; with `inline`, the current process runs it.
pub(crate) fn functions_of_server(python: Option<&str>) -> PyResult<Arc<Functions>> {
    if python == Some("inline") {
        return functions(None, None);
    }
    let hooks = notices::hooks(None, None)?;
    let builtin = millstream::functions::builtin_beside(Some(&load()?), local_workers(), hooks);
    Ok(Arc::new(code::beside(builtin, python)?))
}

/// Returns the workers of this process, which its readers reach without a network. A forked child has its own
/// set and does not touch the parent's set, whose lock may be held for ever.
pub(crate) fn local_workers() -> LocalWorkers {
    static LOCAL: AtomicPtr<(u32, LocalWorkers)> = AtomicPtr::new(std::ptr::null_mut());
    let generation = fork::generation();
    // The value is leaked: once for each generation of a process, of which there are few.
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
