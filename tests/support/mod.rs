//! Support for several tests: elements to send, links to send them over, whole services, a watchdog.
//!
//! - `elements`: packs whose bytes can be recognised
//! - `hand_written`: workers that say what no correct worker says
//! - `losses`: readings of which elements may be lost
//! - `links`: links of each mechanism between two ends
//! - `cluster`: a dispatcher, workers and a trainer in this process
//! - `consumers`: readers that advance in step
//! - `mortal`: a dispatcher that is killed and comes back
//! - `process`: the real binary
//! - `proxy`: a network that can be cut
//! - `s3`: a server of S3
//! - `watchdog`: fails a test that hangs
//! - `witness`: a reader in a process of its own that looks at every element

pub(crate) mod cluster;
pub(crate) mod consumers;
pub(crate) mod elements;
pub(crate) mod hand_written;
pub(crate) mod links;
pub(crate) mod losses;
pub(crate) mod mortal;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod s3;
pub(crate) mod watchdog;
#[cfg(target_os = "linux")]
pub(crate) mod witness;

pub(crate) use watchdog::{eventually, run, watched, watched_for};
