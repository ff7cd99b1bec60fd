//! Options for threads, for tuning by measurement, and for state that cannot be saved.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// Threads of a pool of a dataset's own at most.
pub const PRIVATE_THREADS_MAX: u32 = 4096;

/// Threads of a dataset (`tf.data`'s `Options.threading`). The options of a whole dataset count; within a
/// function they have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Threading {
    /// Threads of a pool of its own for its parallel maps (`private_threadpool_size`); absent or 0: the pool
    /// of the process, that is, of the worker.
    #[n(0)]
    pub private_threads: Option<u32>,
    /// Threads that one operation may use within one call (`max_intra_op_parallelism`). Native operations use
    /// one whatever is said here, and registered functions as many as they like: it is kept for readers of
    /// the definition.
    #[n(1)]
    pub max_intra_op: Option<u32>,
}

/// Settings that are tuned by measurement where operations leave them open (`tf.data`'s `Options.autotune`).
/// They cover a whole dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Autotune {
    /// Whether anything is; it is by default. If not, a map that leaves it open uses all threads of the pool,
    /// and a prefetch that does holds two elements.
    #[n(0)]
    pub enabled: Option<bool>,
    /// Threads for all maps that leave it open (`cpu_budget`); by default as many as the pool has, and never
    /// more.
    #[n(1)]
    pub threads: Option<u32>,
    /// Bytes that the buffers of the dataset may hold together (`ram_budget`), if that is less than what it
    /// is given where it is executed.
    #[n(2)]
    pub ram_bytes: Option<u64>,
}

/// Treatment of state outside of a dataset when its position is saved (`tf.data`'s
/// `Options.experimental_external_state_policy`).
///
/// A dataset that reads a service has such state: the service's workers decide what comes next. Seeds are
/// part of the saved position instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ExternalState {
    /// Saving fails and says why.
    #[n(0)]
    #[default]
    Fail,
    /// Leaves the state out, with a warning; after a restore, the interrupted pass begins again.
    #[n(1)]
    Warn,
    /// Leaves the state out without a warning.
    #[n(2)]
    Ignore,
}

impl Threading {
    /// The rules that it obeys by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.private_threads {
            Some(threads) if threads > PRIVATE_THREADS_MAX => Err(format!(
                "{threads} threads of its own; at most {PRIVATE_THREADS_MAX}"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Autotune {
    /// The rules that it obeys by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.threads, self.ram_bytes) {
            (Some(0), _) => Err("an autotuner without threads; leave it out, or switch it off".to_owned()),
            (_, Some(0)) => Err("an autotuner without memory; leave it out, or switch it off".to_owned()),
            (_, _) => Ok(()),
        }
    }
}
