//! The functions that every process of this build registers, and the service reader.

use millstream_link::LoadedKey;
use millstream_pipeline::exec::Functions;

use crate::local::LocalWorkers;
#[cfg(target_os = "linux")]
use crate::python;
use crate::service_reader::{self, Hooks};

/// Returns the functions that every worker registers. With a key, datasets may also read from services that
/// the key opens.
///
/// The interpreter that the environment names runs Python code: see [`Interpreter::from_environment`].
///
/// [`Interpreter::from_environment`]: crate::python::Interpreter::from_environment
pub fn builtin(key: Option<&LoadedKey>) -> Functions {
    builtin_beside(key, LocalWorkers::default(), Hooks::default())
}

/// Returns the functions of [`builtin`]. Datasets that read a service find the workers `local` in this
/// process, and report notices to `hooks`.
pub fn builtin_beside(key: Option<&LoadedKey>, local: LocalWorkers, hooks: Hooks) -> Functions {
    let functions = native(key, local, hooks);
    // Python processes share memory with the worker in a way that only Linux supports. On other systems, the
    // function's name is unknown.
    #[cfg(target_os = "linux")]
    let functions = python::registered(functions, python::Interpreter::from_environment());
    functions
}

fn native(key: Option<&LoadedKey>, local: LocalWorkers, hooks: Hooks) -> Functions {
    match key {
        Some(key) => Functions::new().with_service(service_reader::opener(key.clone(), local, hooks)),
        None => Functions::new(),
    }
}
