//! The store on etcd, for several dispatchers of which one leads.
//!
//! | file | contents |
//! |---|---|
//! | `config` | the settings and their text form |
//! | `error` | the reasons for which etcd does not serve |
//! | `members` | the members of etcd, and requests that any of them may answer |
//! | `keys` | the keys below a prefix |
//! | `batch` | the bytes of a commit |
//! | `candidate` | the election of the leader |
//! | `lease` | the leadership, and its renewal |
//! | `probe` | a prefix seen from outside, for tests |
//! | `reading` | all records at one moment |
//! | `store` | commits |

#[cfg(feature = "etcd")]
mod batch;
#[cfg(feature = "etcd")]
mod candidate;
mod config;
#[cfg(feature = "etcd")]
mod error;
#[cfg(feature = "etcd")]
mod keys;
#[cfg(feature = "etcd")]
mod lease;
#[cfg(feature = "etcd")]
mod members;
#[cfg(all(test, feature = "etcd"))]
mod probe;
#[cfg(feature = "etcd")]
mod reading;
#[cfg(feature = "etcd")]
mod store;

#[cfg(feature = "etcd")]
pub use candidate::EtcdCandidate;
pub use config::{EtcdConfig, EtcdConfigError, EtcdUser};
#[cfg(feature = "etcd")]
pub use error::EtcdError;
