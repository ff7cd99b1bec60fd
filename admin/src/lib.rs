//! The admin port of a process: metrics for Prometheus, probes for orchestrators, the status as JSON, and the
//! pages of the dashboard, over HTTP.
//!
//! The crate refuses to know dispatchers, workers and readers: a [`Subject`] observes its process. Nothing of
//! the process can be changed here.
//!
//! - [`AdminListener`]: the bound address; [`AdminPort`]: serves it, on a thread of its own
//! - [`AdminConfig`], [`AdminToken`]: where to listen, and who may read
//! - [`Subject`]: the process that is shown
//! - [`Query`]: the part of a document that a request selects
//! - [`Exposition`]: metrics in the text format of Prometheus

mod body;
mod exposition;
mod guard;
mod gzip;
mod live;
mod observer;
mod page;
mod port;
mod query;
mod respond;
mod subject;
#[cfg(test)]
mod tests;
mod token;

pub use exposition::{Exposition, Labels};
pub use page::Page;
pub use port::{AdminConfig, AdminError, AdminListener, AdminPort};
pub use query::{Query, QueryError};
pub use subject::{HISTORY_EVERY, Subject};
pub use token::{AdminToken, TokenError};
