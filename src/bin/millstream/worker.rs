//! `millstream worker`: runs a worker until a signal or a shutdown ends it.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millstream::admin::WorkerSubject;
use millstream::control::rpc::SessionConfig;
use millstream::dataplane::transport::Compression;
use millstream::link::LoadedKey;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::storage::{CacheConfig, Storage, StorageConfig};
#[cfg(target_os = "linux")]
use millstream::python;
use millstream::{Worker, WorkerConfig, WorkerStopper, functions};

use crate::admin;
use crate::args::{CompressionFlag, WorkerArgs};
use crate::console::{note, say};
use crate::ending::{Brake, Ending, NotDone, Reason};
use crate::key;

/// Runs the command.
pub(crate) fn run(args: &WorkerArgs) -> Result<(), String> {
    let mut config = config(args)?;
    let key = key::load(&args.identity)?;
    config.functions = Arc::new(functions(args, &key)?);
    let ending = Ending::watch(args.until_stdin_closes)?;
    let admin = args.admin.bind()?;
    let name = args.advertise.clone().unwrap_or_else(|| args.bind.to_string());
    let tracer = args.traces.start("worker", &name)?;
    config.tracer = tracer.clone();
    let (brake, stopper) = (Brake::default(), WorkerStopper::new());
    let stop = stopper.clone();
    brake.hold(move || stop.stop());
    let start = move || Worker::start_stoppable(&key, config, stopper);
    let started = match ending.unless(&brake, start) {
        Ok(started) => started,
        // A worker that is interrupted while it starts has nothing to clean up.
        Err(NotDone::Interrupted) => return Ok(()),
        Err(refused) => return Err(refused.text()),
    };
    let worker = started.map_err(|error| error.to_string())?;
    say(&format!(
        "worker serving on {} for dispatcher {}",
        worker.address(),
        args.dispatcher
    ));
    let _admin = admin::serve(admin, || WorkerSubject::new(worker.observer()))?;
    if ending.wait(|| worker.has_ended()) == Some(Reason::Terminated) {
        note(
            "shutting down gracefully: the worker delivers the elements that it has begun; a second signal ends the worker at once",
        );
        worker.stopper().drain();
        ending.wait(|| worker.has_ended());
    }
    let stopped = worker.stop().map_err(|error| error.to_string());
    tracer.end();
    stopped
}

/// Returns the functions that datasets may name. Python code runs in the interpreter that the flags name, or
/// the interpreter that this command was installed with.
fn functions(args: &WorkerArgs, key: &LoadedKey) -> Result<Functions, String> {
    let builtin = functions::builtin(Some(key));
    #[cfg(target_os = "linux")]
    {
        if let Some(warning) = missing_interpreter(args.python.as_deref()) {
            tracing::warn!("{warning}");
        }
        let mut interpreter = interpreter(args.python.as_deref());
        for name in &args.python_env {
            interpreter.environment.allow(name);
        }
        if let Some(isolation) = &args.isolation {
            let parsed = isolation.parse::<python::Isolation>();
            interpreter.isolation = parsed.map_err(|error| format!("--isolation: {error}"))?;
        }
        let folders = args.access.allow_path.iter().filter(|path| path.starts_with('/'));
        interpreter.isolation = interpreter.isolation.reading(folders.map(PathBuf::from));
        Ok(python::registered(builtin, interpreter))
    }
    #[cfg(not(target_os = "linux"))]
    Ok(builtin)
}

/// Returns a warning of an interpreter that does not exist. Datasets without Python code do not need it.
#[cfg(target_os = "linux")]
fn missing_interpreter(python: Option<&Path>) -> Option<String> {
    // A name without a slash is looked for on the `PATH`.
    let path = python.filter(|path| path.components().count() > 1 && !path.exists())?;
    let path = path.display();
    Some(format!(
        "--python {path} does not exist: datasets with Python code will fail on this worker"
    ))
}

/// Returns the interpreter that the flag --python or the environment names. Without one, returns the
/// interpreter that is installed with this command, or else the one on the `PATH`.
#[cfg(target_os = "linux")]
pub(crate) fn interpreter(flag: Option<&Path>) -> python::Interpreter {
    let asked_for = flag.map(python::Interpreter::new);
    // Symbolic links to this command are resolved: the directory of a link may be outside of the command's
    // environment.
    let installed_with = || python::Interpreter::beside(&std::env::current_exe().ok()?);
    asked_for
        .or_else(python::Interpreter::named)
        .or_else(installed_with)
        .unwrap_or_else(python::Interpreter::from_environment)
}

fn config(args: &WorkerArgs) -> Result<WorkerConfig, String> {
    let mut config = WorkerConfig::new(&args.dispatcher);
    config.bind = Some(args.bind);
    config.advertise = args.advertise.clone();
    config.tags = args.tags.clone();
    config.pool_bytes = args.memory_bytes;
    config.cross_trainer_cache_bytes = args.cross_trainer_cache_bytes;
    (config.shm_bytes, config.shm_bytes_per_task) = (args.shm_bytes, args.shm_bytes_per_task);
    config.huge_pages = args.huge_pages;
    config.shm_dir = args.shm_dir.clone();
    config.storage = storage(args)?;
    config.threads = match args.threads {
        Some(0) => return Err("--threads 0: must be at least 1".to_owned()),
        threads => threads,
    };
    config.server.compression = match args.compression {
        CompressionFlag::None => Compression::None,
        CompressionFlag::Lz4 => Compression::Lz4,
        CompressionFlag::Auto => Compression::Auto,
    };
    config.endpoint.mtu = args.mtu;
    config.endpoint.validate().map_err(|error| error.to_string())?;
    config.drain_deadline = seconds("--drain-deadline-s", args.drain_deadline_s)?;
    config.shutdown_quiet_period = seconds("--shutdown-quiet-period-s", args.shutdown_quiet_period_s)?;
    config.session = SessionConfig {
        give_up: config.session.give_up,
        ..patience(args.wait_s)?
    };
    Ok(config)
}

/// Returns the storage of files, with a cache if --cache-dir is set.
fn storage(args: &WorkerArgs) -> Result<Storage, String> {
    let cache = args.cache_dir.clone().map(|directory| CacheConfig {
        directory,
        limit_bytes: args.cache_bytes,
    });
    let config = StorageConfig {
        cache,
        allowed: args.access.allow_path.clone(),
        ..StorageConfig::default()
    };
    Storage::new(config).map_err(|error| error.to_string())
}

/// Returns the session settings that wait this many seconds for the first contact with a dispatcher, and
/// print a note meanwhile.
pub(crate) fn patience(wait_s: f64) -> Result<SessionConfig, String> {
    let connect_deadline = seconds("--wait-s", wait_s)?;
    Ok(SessionConfig {
        connect_deadline,
        on_waiting: Some(Arc::new(note)),
        ..SessionConfig::default()
    })
}

/// Converts the value of a flag to a duration.
pub(crate) fn seconds(flag: &str, given: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(given).map_err(|_| format!("{flag} {given}: must be 0 or more seconds"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_missing_paths_of_interpreters_are_told() {
        let told = |python: &str| missing_interpreter(Some(Path::new(python)));
        assert!(told("/nowhere/bin/python").is_some_and(|warning| warning.contains("/nowhere/bin/python")));
        assert_eq!(told("/"), None);
        assert_eq!(told("python3-that-nobody-has"), None);
        assert_eq!(missing_interpreter(None), None);
    }
}
