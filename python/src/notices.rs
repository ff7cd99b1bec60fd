//! Notices for users who wait. Native threads queue notices, and Python emits them on the user's own thread.
//!
//! A thread that waits and holds the interpreter's lock emits the queued notices, so native threads never
//! wait for that lock. Does not know the subject of notices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::client::{Notice, OnNotice, OnStarted, WaitClock};
use millstream::control::rpc::SessionConfig;
use millstream::service_reader::Hooks;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::failure::raise;
use crate::probe::Probe;
use crate::traces;

/// The maximum number of queued notices. A further notice replaces the oldest one.
const WAITING_MAX: usize = 256;

/// The variable that sets the time for which a dispatcher may be unreachable.
const TIMEOUT: &str = "MILLSTREAM_DISPATCHER_TIMEOUT_S";

/// The maximum wait for the lock of the queue. In a forked child, the lock may be held for ever.
const LOCK_WITHIN: Duration = Duration::from_millis(10);

/// The queued notices, each with the name of the package's function that emits it.
static WAITING: Mutex<VecDeque<(&'static str, String)>> = Mutex::new(VecDeque::new());

/// `true` if notices are queued, so that checking costs one load.
static ANY: AtomicBool = AtomicBool::new(false);

/// Queues a line for the log.
pub(crate) fn log(text: &str) {
    leave("log", text.to_owned());
}

/// Returns the receiver of readers' notices. `probe` counts what the reader left out.
pub(crate) fn of_readers(probe: Option<Arc<Probe>>) -> OnNotice {
    Arc::new(move |notice: &Notice| {
        if let Some(probe) = &probe {
            probe.note(notice);
        }
        if let Notice::DataLost(_) | Notice::SplitSkipped { .. } | Notice::ElementQuarantined { .. } = notice
        {
            leave("warn_of_loss", notice.to_string());
        } else {
            log(&notice.to_string());
        }
    })
}

/// Returns the hooks by which pipelines of this process report notices of the services that they read, and
/// show their readers to `probe`. `user_waits` counts the waits of the pipeline's user.
///
/// # Errors
/// The errors of [`session`] and of [`traces::tracer`].
pub(crate) fn hooks(probe: Option<Arc<Probe>>, user_waits: Option<Arc<WaitClock>>) -> PyResult<Hooks> {
    let on_started = probe
        .clone()
        .map(|probe| -> OnStarted { Arc::new(move |watch| probe.note_reader(watch)) });
    Ok(Hooks {
        on_notice: Some(of_readers(probe)),
        on_started,
        tracer: traces::tracer()?,
        user_waits,
        session: session(None)?,
    })
}

/// Returns the session settings of this process. The timeout is `dispatcher_timeout_s`, else the
/// environment's value, else the default. Messages about waiting go to the log.
///
/// # Errors
/// The timeout, or the environment's value, is not a valid time.
pub(crate) fn session(dispatcher_timeout_s: Option<f64>) -> PyResult<SessionConfig> {
    let defaults = SessionConfig::default();
    let give_up = match (dispatcher_timeout_s, std::env::var(TIMEOUT).ok()) {
        (Some(given), _) => time("dispatcher_timeout_s", given)?,
        (None, Some(said)) if !said.is_empty() => time(TIMEOUT, said.parse().unwrap_or(f64::NAN))?,
        (None, _) => defaults.give_up,
    };
    Ok(SessionConfig {
        give_up,
        on_waiting: Some(Arc::new(log)),
        ..defaults
    })
}

fn time(name: &str, given_s: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(given_s).map_err(|_| {
        raise(
            "InvalidArgumentError",
            format!("invalid {name} {given_s}: expected a number of seconds, 0 or more"),
        )
    })
}

fn leave(sayer: &'static str, text: String) {
    let Some(mut waiting) = WAITING.try_lock_for(LOCK_WITHIN) else {
        return;
    };
    if waiting.len() == WAITING_MAX {
        waiting.pop_front();
    }
    waiting.push_back((sayer, text));
    ANY.store(true, Ordering::Release);
}

/// Emits the queued notices.
///
/// # Errors
/// The user's warning filter turns warnings into errors.
#[inline]
pub(crate) fn say(py: Python<'_>) -> PyResult<()> {
    if ANY.load(Ordering::Acquire) {
        say_all(py)?;
    }
    Ok(())
}

fn say_all(py: Python<'_>) -> PyResult<()> {
    loop {
        let next = WAITING.try_lock_for(LOCK_WITHIN).and_then(|mut waiting| {
            let next = waiting.pop_front();
            ANY.store(!waiting.is_empty(), Ordering::Release);
            next
        });
        let Some((sayer, text)) = next else {
            return Ok(());
        };
        py.import("millstream._notices")?.call_method1(sayer, (text,))?;
    }
}
