//! The ids of the control plane: one type for each kind of id, so that two kinds are never confused.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

macro_rules! numbered_id {
    ($(#[$doc:meta])* $name:ident, first = $first:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl $name {
            /// The first id of this kind that a dispatcher assigns.
            pub const FIRST: $name = $name($first);
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

numbered_id!(
    /// The id of one incarnation of a worker. A restarted worker at the same address is another
    /// incarnation.
    WorkerId,
    first = 1
);
numbered_id!(
    /// The id of one iteration, which is one pass of a job.
    IterationId,
    first = 2000
);
numbered_id!(
    /// The id of a client: a reader's lease on an iteration.
    ClientId,
    first = 3000
);
numbered_id!(
    /// The id of a task: one worker's share of an iteration.
    TaskId,
    first = 4000
);
numbered_id!(
    /// The id of a job: a named or anonymous reading of a dataset.
    JobId,
    first = 5000
);
numbered_id!(
    /// The id of a process's relation with the dispatcher, across reconnections. The process draws the
    /// number at random. A worker's session is its incarnation.
    SessionId,
    first = 0
);
numbered_id!(
    /// The number of a mutating request in its session. A retry has the same number.
    RequestNumber,
    first = 1
);
numbered_id!(
    /// The name of one life of the dispatcher's state. The boot id changes when the dispatcher restarts
    /// without its stored state.
    BootId,
    first = 0
);

/// The id of a registered dataset. The process that registered the dataset chose the id, or the id is a
/// decimal number from 1000.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct DatasetId(#[n(0)] String);

impl DatasetId {
    /// The first id assigned to a dataset that was registered without an id.
    pub const FIRST_AUTOMATIC: u64 = 1000;
    /// Maximum bytes of a dataset's id.
    pub const BYTES_MAX: usize = 128;

    /// Checks a text, and returns it as a dataset's id.
    ///
    /// # Errors
    /// The text is empty, longer than [`DatasetId::BYTES_MAX`], or not safe as a file name.
    pub fn new(text: &str) -> Result<DatasetId, DatasetIdError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '=' | ':');
        if text.is_empty() || text.len() > DatasetId::BYTES_MAX {
            return Err(DatasetIdError::Length {
                found_bytes: text.len(),
            });
        }
        if text.starts_with('.') || !text.chars().all(plain) {
            return Err(DatasetIdError::Characters { id: text.to_owned() });
        }
        Ok(DatasetId(text.to_owned()))
    }

    /// Returns the automatic id with this number.
    pub(crate) fn automatic(number: u64) -> DatasetId {
        DatasetId(number.to_string())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error of a text that is not a dataset's id; a mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatasetIdError {
    /// The text is empty or too long.
    #[error("a dataset id has 1 to {max} bytes, not {found_bytes}", max = DatasetId::BYTES_MAX)]
    Length {
        /// The length of the text.
        found_bytes: usize,
    },
    /// The text is not safe as a file name.
    #[error("the dataset id {id:?} may hold letters, digits and . _ - = : only, and not begin with a dot")]
    Characters {
        /// The rejected text.
        id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_id_is_a_safe_file_name() {
        for good in ["1000", "imagenet-v1.2", "a=b:c_d"] {
            assert_eq!(DatasetId::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".hidden",
            "../x",
            "../../x",
            "a/b",
            "a b",
            "ä",
            &"x".repeat(129),
        ] {
            assert!(DatasetId::new(bad).is_err(), "{bad:?}");
        }
    }
}
