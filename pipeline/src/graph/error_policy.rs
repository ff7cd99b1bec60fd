//! The treatment of an element at which an operation fails.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The largest number of retries for one element.
pub const RETRIES_MAX: u32 = 100;

/// The treatment of an element at which a function or an operation fails.
///
/// The operation first retries the element a number of times. After the last retry, the failure ends the
/// pipeline, which is the default, or the element is skipped. `tf.data`'s `ignore_errors` skips, but has no
/// retries.
///
/// Elements are only skipped if bad data or user functions are to blame:
///
/// - An element is skipped if its map or predicate fails.
/// - An element is skipped if it has no rows for `unbatch`.
/// - A batch is skipped if its elements do not stack.
/// - The rest of a dataset is skipped if the dataset fails while `flat_map` or `interleave` reads it.
/// - A record is skipped if it cannot be read.
/// - A file is skipped if it cannot be opened, and the rest of a file if its bytes are broken.
/// - An element is skipped if a registered source fails at it. If the source cannot continue, the rest of its
///   split is skipped, or the rest of the pass if the source has no splits.
///
/// Skipped elements are counted by operation, and count as read. Failures that the caller, a limit, another
/// process or this crate causes always end the pipeline. For example, no file is skipped because storage is
/// down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorPolicy {
    /// The number of retries, each after a pause that grows from 1 to 100 ms; at most [`RETRIES_MAX`].
    ///
    /// Retries apply to calls of functions, to opening files, and to reading files if storage fails. Broken
    /// bytes are not read again. A registered source is retried too: the operation opens the source again and
    /// skips the elements that it has already read. An operation that has read from its input cannot be
    /// retried.
    #[n(0)]
    pub retries: u32,
    /// `true` if an element that still fails after the retries is skipped.
    #[n(1)]
    pub skips: bool,
}

impl ErrorPolicy {
    /// The policy under which the first failure ends the pipeline.
    pub const RAISE: ErrorPolicy = ErrorPolicy {
        retries: 0,
        skips: false,
    };
    /// The policy that skips failing elements, without retries.
    pub const SKIP: ErrorPolicy = ErrorPolicy {
        retries: 0,
        skips: true,
    };

    /// Returns the policy that retries a failing function up to `retries` times, after which the failure ends
    /// the pipeline.
    pub const fn retry(retries: u32) -> ErrorPolicy {
        ErrorPolicy {
            retries,
            skips: false,
        }
    }

    /// Returns this policy, changed to skip elements that still fail after the retries.
    #[must_use]
    pub const fn then_skip(self) -> ErrorPolicy {
        ErrorPolicy { skips: true, ..self }
    }

    /// Checks that the number of retries is within its limit.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.retries <= RETRIES_MAX {
            return Ok(());
        }
        Err(format!(
            "allows {} retries, the limit is {RETRIES_MAX}",
            self.retries
        ))
    }
}
