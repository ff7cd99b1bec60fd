//! How a dataset is executed and travels, wherever that is.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::error_policy::ErrorPolicy;
use super::rewrites::Rewrites;
use super::settings::{Autotune, ExternalState, Threading};

/// Parameters of `options`: how the dataset is executed up to there. What is absent is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether operations that work in parallel keep the order of their elements unless they say otherwise
    /// themselves; they do by default.
    #[n(0)]
    pub deterministic: Option<bool>,
    /// How elements travel from workers over a network; by default as each worker is set, which is `Auto`
    /// unless it was told otherwise. Of a whole dataset only: what is part of another dataset travels
    /// nowhere.
    #[n(1)]
    pub compression: Option<Travel>,
    /// Treatment of elements at which an operation fails, for all operations up to here that no option
    /// further up covers; [`ErrorPolicy::RAISE`] by default.
    #[n(2)]
    pub on_error: Option<ErrorPolicy>,
    /// Rewrites of the graph before execution; by default all that never change an element.
    #[n(3)]
    pub rewrites: Option<Rewrites>,
    /// Threads that the dataset uses.
    #[n(4)]
    pub threading: Option<Threading>,
    /// Settings that are tuned by measurement.
    #[n(5)]
    pub autotune: Option<Autotune>,
    /// Treatment of state outside of the dataset when its position is saved.
    #[n(6)]
    pub external_state: Option<ExternalState>,
}

impl Options {
    /// The rules that parameters obey by themselves.
    pub(crate) fn check_settings(&self) -> Result<(), String> {
        self.on_error.unwrap_or_default().check()?;
        self.threading.unwrap_or_default().check()?;
        self.autotune.unwrap_or_default().check()
    }
}

/// How elements travel over a network. What the tf.data service calls `AUTO`, `None` and `SNAPPY` is `Auto`,
/// `Plain` and `Lz4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Travel {
    /// Elements travel uncompressed.
    #[n(0)]
    #[serde(rename = "none")]
    Plain,
    /// Elements travel as LZ4 blocks, where that is shorter.
    #[n(1)]
    Lz4,
    /// Elements travel as LZ4 blocks to readers that measurably receive them sooner that way, and
    /// uncompressed to others.
    #[n(2)]
    Auto,
}

impl Travel {
    /// The word for it: `none`, `lz4` or `auto`.
    pub fn name(self) -> &'static str {
        match self {
            Travel::Plain => "none",
            Travel::Lz4 => "lz4",
            Travel::Auto => "auto",
        }
    }
}
