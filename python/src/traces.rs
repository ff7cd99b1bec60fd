//! The export of traces by this process: one for all its readers, workers and dispatchers.

use std::time::Duration;

use millstream::trace::{OtlpConfig, OtlpError, SampleRatio, Tracer};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;

use crate::failure::raise;
use crate::fork::Here;

/// The variables that start the export without a call.
const URL: &str = "MILLSTREAM_TRACES";
const RATIO: &str = "MILLSTREAM_TRACE_RATIO";

/// The maximum wait for the lock, which is held briefly. In a forked child, it may be held for ever.
const LOCK_WITHIN: Duration = Duration::from_secs(1);

/// The export of this process.
static EXPORT: Mutex<Export> = Mutex::new(Export {
    wanted: Wanted::Unread,
    running: None,
});

struct Export {
    wanted: Wanted,
    /// The running export. A forked child starts its own, because threads do not exist there.
    running: Option<Here<Tracer>>,
}

/// The destination of the spans.
enum Wanted {
    /// The variables decide, and were not read yet.
    Unread,
    Off,
    On(String, SampleRatio),
}

/// Returns the tracer of this process. Starts the export if the variables name its destination.
///
/// # Errors
/// `InvalidArgumentError` if the variables cannot be used.
pub(crate) fn tracer() -> PyResult<Tracer> {
    let mut export = locked()?;
    if let Wanted::Unread = export.wanted {
        export.wanted = match variable(URL) {
            Some(url) => Wanted::On(url, ratio(variable(RATIO))?),
            None => Wanted::Off,
        };
    }
    let Wanted::On(url, ratio) = &export.wanted else {
        return Ok(Tracer::default());
    };
    if let Some(running) = export.running.as_ref().filter(|running| running.is_here()) {
        return running.get("export of traces").cloned();
    }
    let tracer = started(url, *ratio)?;
    export.running = Some(Here::new(tracer.clone()));
    Ok(tracer)
}

/// Sends traces of sampled splits to the collector at `url`. Replaces an earlier export.
#[pyfunction]
#[pyo3(signature = (url=None, ratio=None))]
pub(crate) fn start_traces(py: Python<'_>, url: Option<String>, ratio: Option<f64>) -> PyResult<()> {
    let refused = |error: &dyn std::fmt::Display| raise("InvalidArgumentError", error);
    let Some(url) = url.or_else(|| variable(URL)) else {
        return Err(refused(&format!(
            "pass the URL of a collector, or set the variable {URL}"
        )));
    };
    let ratio = match ratio {
        Some(ratio) => SampleRatio::new(ratio).map_err(|error| refused(&error))?,
        None => self::ratio(variable(RATIO))?,
    };
    py.detach(|| {
        let tracer = started(&url, ratio)?;
        replace(Wanted::On(url, ratio), Some(tracer))
    })
}

/// Ends the export. Sends the remaining spans, for 2 seconds at most.
#[pyfunction]
pub(crate) fn stop_traces(py: Python<'_>) -> PyResult<()> {
    py.detach(|| replace(Wanted::Off, None))
}

/// Replaces the export, and ends the earlier one without the lock.
fn replace(wanted: Wanted, tracer: Option<Tracer>) -> PyResult<()> {
    let mut export = locked()?;
    export.wanted = wanted;
    let earlier = std::mem::replace(&mut export.running, tracer.map(Here::new));
    drop(export);
    if let Some(Ok(earlier)) = earlier.as_ref().map(|earlier| earlier.get("export of traces")) {
        earlier.end();
    }
    Ok(())
}

fn locked() -> PyResult<MutexGuard<'static, Export>> {
    EXPORT.try_lock_for(LOCK_WITHIN).ok_or_else(|| {
        raise(
            "UnavailableError",
            "another thread starts or stops the traces, or did so when this process was forked: start them before the fork",
        )
    })
}

fn started(url: &str, ratio: SampleRatio) -> PyResult<Tracer> {
    let config = OtlpConfig::named(url, ratio, "python", "python");
    config.start().map_err(|error| match &error {
        OtlpError::NotBuilt => raise("UnimplementedError", error),
        OtlpError::Client { .. } => raise("UnavailableError", error),
        OtlpError::Endpoint { .. } | OtlpError::Settings(_) => raise("InvalidArgumentError", error),
    })
}

/// Returns the value of a variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the ratio that the variable says, or the default.
fn ratio(said: Option<String>) -> PyResult<SampleRatio> {
    said.map_or(Ok(SampleRatio::default()), |said| {
        said.parse()
            .map_err(|error| raise("InvalidArgumentError", format!("{RATIO}: {error}")))
    })
}
