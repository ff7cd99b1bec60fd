//! Options for threads, for tuning by measurement, and for state that cannot be saved.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The maximum number of threads in a dataset's private pool.
pub const PRIVATE_THREADS_MAX: u32 = 4096;

/// The threads of a dataset (`tf.data`'s `Options.threading`). The settings have an effect only in the
/// options of a whole dataset, not within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Threading {
    /// The number of threads in a private pool for the dataset's parallel maps (`private_threadpool_size`).
    /// `None` or 0 means the shared pool of the process, which is the worker.
    #[n(0)]
    pub private_threads: Option<u32>,
    /// The number of threads that one operation may use within one call (`max_intra_op_parallelism`). The
    /// executor ignores the number: native operations use one thread, and registered functions choose their
    /// own. The definition keeps the number for information only.
    #[n(1)]
    pub max_intra_op: Option<u32>,
}

/// The settings that the executor tunes by measurement, if operations leave them open (`tf.data`'s
/// `Options.autotune`). The settings cover a whole dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Autotune {
    /// The switch for tuning, which is on by default. Without tuning, a map with an open number of threads
    /// uses the whole pool. Without tuning, a `prefetch` with an open size holds two elements.
    #[n(0)]
    pub enabled: Option<bool>,
    /// The number of threads for all maps with an open number of threads (`cpu_budget`). The default and the
    /// maximum is the number of threads in the pool.
    #[n(1)]
    pub threads: Option<u32>,
    /// The number of bytes that all buffers of the dataset may hold together (`ram_budget`). The budget of
    /// the executing process also limits the buffers.
    #[n(2)]
    pub ram_bytes: Option<u64>,
}

/// The treatment of external state when the position of a dataset is saved (`tf.data`'s
/// `Options.experimental_external_state_policy`).
///
/// A dataset that reads from a service has external state, because the service's workers decide which element
/// comes next. Seeds are not external state: they are part of the saved position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ExternalState {
    /// Saving the position fails with an error that names the state.
    #[n(0)]
    #[default]
    Fail,
    /// The state is left out with a warning. After a restore, the interrupted pass begins again.
    #[n(1)]
    Warn,
    /// The state is left out without a warning.
    #[n(2)]
    Ignore,
}

impl Threading {
    /// Checks that the number of threads is within its limit.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.private_threads {
            Some(threads) if threads > PRIVATE_THREADS_MAX => Err(format!(
                "has a private pool of {threads} threads, the limit is {PRIVATE_THREADS_MAX}"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Autotune {
    /// Checks that the autotuner has threads and memory.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.threads, self.ram_bytes) {
            (Some(0), _) => Err(
                "has an autotuner with 0 threads: leave the number out, or switch the autotuner off"
                    .to_owned(),
            ),
            (_, Some(0)) => Err(
                "has an autotuner with 0 bytes of memory: leave the number out, or switch the autotuner off"
                    .to_owned(),
            ),
            (_, _) => Ok(()),
        }
    }
}
