//! The reasons for which etcd does not serve a dispatcher: the party at fault, the place, and the remedy.

use super::config::EtcdConfig;
use crate::store::StoreError;

/// The error of a request to etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No member has answered in time. The network, the members, their quorum or the settings of TLS are at
    /// fault.
    #[error(
        "etcd at {members} does not answer: {reason}; check that etcd runs there and that most of its members live{tls}"
    )]
    Unreachable {
        /// The members that were asked.
        members: String,
        /// The reason of the last attempt.
        reason: String,
        /// The advice for a connection that was opened and then failed, or nothing.
        tls: &'static str,
    },
    /// etcd refuses the user, or the user may not use the prefix.
    #[error(
        "etcd at {members} refuses this dispatcher: {reason}; check --store-user and its password file. The user needs the \
         right to read and write all keys that begin with {prefix}/"
    )]
    Denied {
        /// The prefix.
        prefix: String,
        /// The members that were asked.
        members: String,
        /// The reason of etcd.
        reason: String,
    },
    /// A file for TLS cannot be read or used.
    #[error(
        "the file {path} for TLS with etcd cannot be used: {reason}; check the path and that the file is PEM"
    )]
    Tls {
        /// The path of the file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The settings name no certificates that may sign those of etcd.
    #[error(
        "etcd at {members} is encrypted, and no file names the certificates that sign those of etcd: give the file with \
         --store-ca FILE"
    )]
    NoCa {
        /// The members of the settings.
        members: String,
    },
    /// etcd has no space.
    #[error(
        "etcd at {members}: {reason}; raise --quota-backend-bytes of etcd, compact and defragment it, and disarm its alarm"
    )]
    Full {
        /// The members that were asked.
        members: String,
        /// The reason of etcd.
        reason: String,
    },
    /// etcd has removed the revision that a standby was reading. A further attempt reads a later revision.
    #[error(
        "etcd at {members} removed its history while all records were read; let --auto-compaction-retention of etcd keep at \
         least one minute"
    )]
    Compacted {
        /// The members that were asked.
        members: String,
    },
    /// The prefix holds the records of a service with other keys.
    #[error(
        "the prefix {prefix} in etcd at {members} belongs to a service with other keys: give each service a prefix of its own, \
         or start this dispatcher with the key of that service"
    )]
    OtherCluster {
        /// The prefix.
        prefix: String,
        /// The members that were asked.
        members: String,
    },
    /// A later version wrote the records.
    #[error(
        "the records below {prefix} in etcd were written by a later version of millstream (format {found}, this version reads \
         {known}): run that version, or choose another prefix"
    )]
    Later {
        /// The prefix.
        prefix: String,
        /// The format of the records.
        found: u64,
        /// The latest format that this version reads.
        known: u64,
    },
    /// The records were changed by another program.
    #[error(
        "the records below {prefix} in etcd are damaged ({reason}): restore them from a snapshot of etcd, or choose another \
         prefix, whose service starts empty"
    )]
    Damaged {
        /// The prefix.
        prefix: String,
        /// The damage that was found.
        reason: String,
    },
    /// Another dispatcher leads, or this one could not renew its lease.
    #[error("{0}")]
    Lost(String),
    /// The system refused a thread or a socket, or etcd refused a request for a reason of its own.
    #[error("{0}")]
    Other(String),
}

impl From<EtcdError> for StoreError {
    fn from(error: EtcdError) -> StoreError {
        match error {
            EtcdError::Full { .. } => StoreError::Full(error.to_string()),
            EtcdError::Lost(reason) => StoreError::Lost(reason),
            // The dispatcher takes part in the election again once etcd answers.
            EtcdError::Unreachable { .. } | EtcdError::Compacted { .. } => {
                StoreError::Lost(error.to_string())
            }
            EtcdError::Denied { .. }
            | EtcdError::Tls { .. }
            | EtcdError::NoCa { .. }
            | EtcdError::OtherCluster { .. }
            | EtcdError::Later { .. }
            | EtcdError::Damaged { .. }
            | EtcdError::Other(_) => StoreError::Failed(error.to_string()),
        }
    }
}

impl EtcdError {
    pub(super) fn damaged(config: &EtcdConfig, reason: impl Into<String>) -> EtcdError {
        EtcdError::Damaged {
            prefix: config.prefix.clone(),
            reason: reason.into(),
        }
    }
}
