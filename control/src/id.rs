//! Names of things: one type per kind of id, so that no two kinds are ever mixed up.
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
            /// The first id of this kind that a dispatcher gives out.
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
    /// One incarnation of a worker: a restarted worker at the same address is another one.
    WorkerId,
    first = 1
);
numbered_id!(
    /// One pass of a job.
    IterationId,
    first = 2000
);
numbered_id!(
    /// A reader's lease on an iteration.
    ClientId,
    first = 3000
);
numbered_id!(
    /// One worker's share of an iteration.
    TaskId,
    first = 4000
);
numbered_id!(
    /// A named or anonymous reading of a dataset.
    JobId,
    first = 5000
);
numbered_id!(
    /// One process' relation with the dispatcher, across reconnections: a random number that the process
    /// draws. A worker's session is its incarnation.
    SessionId,
    first = 0
);
numbered_id!(
    /// The number of a mutating request in its session: a retry repeats it.
    RequestNumber,
    first = 1
);
numbered_id!(
    /// One life of a dispatcher's state: it changes when the dispatcher comes back having forgotten
    /// everything.
    BootId,
    first = 0
);

/// The name of a registered dataset: chosen by the client that registered it, or a decimal number from 1000.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct DatasetId(#[n(0)] String);

impl DatasetId {
    /// The first id given to a dataset that was registered without one.
    pub const FIRST_AUTOMATIC: u64 = 1000;
    /// Most bytes of a dataset's id.
    pub const BYTES_MAX: usize = 128;

    /// A dataset's id as its user wrote it.
    ///
    /// # Errors
    /// It is empty, longer than [`DatasetId::BYTES_MAX`], or would not be safe as the name of a file.
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

    /// The id given automatically with this number.
    pub(crate) fn automatic(number: u64) -> DatasetId {
        DatasetId(number.to_string())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is not a dataset's id. The caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatasetIdError {
    /// Empty or too long.
    #[error("a dataset id has 1 to {max} bytes, not {found_bytes}", max = DatasetId::BYTES_MAX)]
    Length {
        /// The length of the id.
        found_bytes: usize,
    },
    /// Not safe as a name.
    #[error("the dataset id {id:?} may hold letters, digits and . _ - = : only, and not begin with a dot")]
    Characters {
        /// The rejected id.
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
