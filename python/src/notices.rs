//! Notices for users who wait: native threads queue them, and Python emits them on the user's own thread.
//!
//! Native threads leave notices here; a thread that waits under the interpreter's lock says them. So no
//! native thread ever waits for that lock. Refuses to know what notices are about.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::client::{Notice, OnNotice};
use millstream::control::rpc::SessionConfig;
use millstream::service_reader::Hooks;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::failure::raise;

/// Notices that wait to be said; beyond them the oldest goes. Nobody reads more at once.
const WAITING_MAX: usize = 256;

/// The environment's word for how long a dispatcher may be out of reach.
const TIMEOUT: &str = "MILLSTREAM_DISPATCHER_TIMEOUT_S";

/// How long the lock is waited for: in a forked child it may be held for ever.
const LOCK_WITHIN: Duration = Duration::from_millis(10);

/// Notices and the functions of the package that say them.
static WAITING: Mutex<VecDeque<(&'static str, String)>> = Mutex::new(VecDeque::new());

/// Whether there are any: a load for a thread that looks.
static ANY: AtomicBool = AtomicBool::new(false);

/// Leaves a line for the log.
pub(crate) fn log(text: &str) {
    leave("log", text.to_owned());
}

/// Takes the notices of readers.
pub(crate) fn of_readers() -> OnNotice {
    Arc::new(|notice: &Notice| {
        if let Notice::DataLost(loss) = notice {
            leave("warn_of_loss", loss.to_string());
        } else {
            log(&notice.to_string());
        }
    })
}

/// Returns the hooks by which pipelines of this process report on the services that they read.
///
/// # Errors
/// As [`session`].
pub(crate) fn hooks() -> PyResult<Hooks> {
    Ok(Hooks {
        on_notice: Some(of_readers()),
        session: session(None)?,
    })
}

/// How patient this process is with dispatchers: `dispatcher_timeout_s`, else what the environment says, else
/// the default. Waits are told by the log.
///
/// # Errors
/// One of them is no time.
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
            format!("{name} {given_s}: give seconds, 0 or more"),
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

/// Says what waits.
///
/// # Errors
/// The user has made warnings errors.
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
