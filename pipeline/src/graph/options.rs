//! Options for the execution of a dataset and for the transfer of its elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::error_policy::ErrorPolicy;
use super::rewrites::Rewrites;
use super::settings::{Autotune, ExternalState, Threading};

/// Parameters of `options`, which hold for the dataset up to this operation. An option that is `None` leaves
/// the setting of earlier options unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The default order of parallel operations: with `true`, they keep the order of their elements. An
    /// operation can override this option; `None` means `true`.
    #[n(0)]
    pub deterministic: Option<bool>,
    /// The compression of elements between workers and readers on other hosts. The default is the worker's
    /// setting, which is `Auto` unless the worker was configured otherwise. The option has an effect only in
    /// the options of a whole dataset.
    #[n(1)]
    pub compression: Option<Travel>,
    /// The treatment of elements at which an operation fails. The option holds for all operations up to here
    /// that have no nearer option; the default is [`ErrorPolicy::RAISE`].
    #[n(2)]
    pub on_error: Option<ErrorPolicy>,
    /// The rewrites of the graph before execution; all are on by default.
    #[n(3)]
    pub rewrites: Option<Rewrites>,
    /// The threads that the dataset uses.
    #[n(4)]
    pub threading: Option<Threading>,
    /// The settings that are tuned by measurement.
    #[n(5)]
    pub autotune: Option<Autotune>,
    /// The treatment of external state when the position of the dataset is saved.
    #[n(6)]
    pub external_state: Option<ExternalState>,
}

impl Options {
    /// Checks the parameters, without knowledge of the input.
    pub(crate) fn check_settings(&self) -> Result<(), String> {
        self.on_error.unwrap_or_default().check()?;
        self.threading.unwrap_or_default().check()?;
        self.autotune.unwrap_or_default().check()
    }
}

/// The compression of elements that travel over a network. The tf.data service's names `AUTO`, `None` and
/// `SNAPPY` correspond to `Auto`, `Plain` and `Lz4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Travel {
    /// Elements travel uncompressed.
    #[n(0)]
    #[serde(rename = "none")]
    Plain,
    /// Elements are compressed as LZ4 blocks if that makes them shorter.
    #[n(1)]
    Lz4,
    /// Elements are compressed as LZ4 blocks for readers that measurably receive them sooner with
    /// compression. Other readers receive uncompressed elements.
    #[n(2)]
    Auto,
}

impl Travel {
    /// Returns the name of the compression: `none`, `lz4` or `auto`.
    pub fn name(self) -> &'static str {
        match self {
            Travel::Plain => "none",
            Travel::Lz4 => "lz4",
            Travel::Auto => "auto",
        }
    }
}
