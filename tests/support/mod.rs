//! Support for several tests:
//!
//! - `elements`: packs with recognisable bytes
//! - `hand_written`: workers that break the protocol
//! - `http`: requests to an admin port
//! - `losses`: reads that may lose elements
//! - `links`: links over each transport between two ends
//! - `cluster`: a dispatcher, workers and a trainer in this process
//! - `collector`: a collector of OpenTelemetry
//! - `consumers`: readers that advance in step
//! - `mortal`: a dispatcher that is killed and started again
//! - `process`: processes of the real binary
//! - `proxy`: a network that can be cut
//! - `s3`: an S3 server
//! - `watchdog`: a time limit for tests
//! - `witness`: a reader in a separate process that checks every element

pub(crate) mod cluster;
#[cfg(feature = "otlp")]
pub(crate) mod collector;
pub(crate) mod consumers;
pub(crate) mod elements;
pub(crate) mod exact;
pub(crate) mod hand_written;
pub(crate) mod http;
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
