//! The treatment of an element that an operation fails at.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The largest number of times that an element is tried again.
pub const RETRIES_MAX: u32 = 100;

/// The treatment of an element at which a function or an operation fails: a number of retries, then the end
/// of the pipeline, which is the default, or the omission of the element.
///
/// `tf.data`'s `ignore_errors` omits; it has no retries.
///
/// Left out is what bad data and user functions are to blame for: an element whose map or predicate fails; an
/// element that has no rows for `unbatch`; a batch whose elements do not stack; the rest of a dataset that
/// `flat_map` or `interleave` was reading; a record that cannot be read; a file that cannot be opened, or the
/// rest of one whose bytes are broken; an element at which a registered source fails and continues; or what
/// is left of its split, or of its pass if it has no splits. Each is counted by operation, and counts as
/// read. What the caller, a limit, another process or this crate is to blame for always ends the pipeline:
/// storage that is down loses no files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorPolicy {
    /// Further attempts, each after a pause that grows from 1 to 100 ms; at most [`RETRIES_MAX`]. Retries
    /// apply to calls of functions, to opening files, and to reading them if storage fails; broken bytes are
    /// not read again. They also apply to registered sources, which are opened again and skip what came
    /// before. What has read from its input cannot be tried again.
    #[n(0)]
    pub retries: u32,
    /// Whether what still fails is left out.
    #[n(1)]
    pub skips: bool,
}

impl ErrorPolicy {
    /// The first failure ends the pipeline.
    pub const RAISE: ErrorPolicy = ErrorPolicy {
        retries: 0,
        skips: false,
    };
    /// Leaves failing elements out.
    pub const SKIP: ErrorPolicy = ErrorPolicy {
        retries: 0,
        skips: true,
    };

    /// Functions that fail are called again up to `retries` times; then the failure ends the pipeline.
    pub const fn retry(retries: u32) -> ErrorPolicy {
        ErrorPolicy {
            retries,
            skips: false,
        }
    }

    /// Returns this policy, which then leaves out elements that still fail.
    #[must_use]
    pub const fn then_skip(self) -> ErrorPolicy {
        ErrorPolicy { skips: true, ..self }
    }

    /// The rules that it obeys by itself.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.retries <= RETRIES_MAX {
            return Ok(());
        }
        Err(format!("{} retries; at most {RETRIES_MAX}", self.retries))
    }
}
