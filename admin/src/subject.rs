//! The process that an admin port shows. Refuses to know HTTP.

use std::future::Future;
use std::time::Duration;

use crate::exposition::Exposition;
use crate::page::Page;
use crate::query::{Query, QueryError};

/// The time between two states that a process with a history remembers.
pub const HISTORY_EVERY: Duration = Duration::from_secs(5);

/// A process that can be observed.
///
/// An admin port observes its process at most once in a quarter of a second, however many viewers it has.
pub trait Subject: Send + Sync + 'static {
    /// The state of the process at one moment.
    type Facts: Send + Sync + 'static;

    /// True if the process remembers its states for later viewers. Without viewers, the port observes only
    /// processes with a history.
    const HAS_HISTORY: bool = false;

    /// Observes the process. The port gives up after five seconds.
    ///
    /// # Errors
    /// The reason why the process cannot be observed, as a sentence for an operator.
    fn observe(&self) -> impl Future<Output = Result<Self::Facts, String>> + Send;

    /// Returns whether the process can serve others now.
    ///
    /// # Errors
    /// The reason why it cannot, as a sentence for an operator.
    fn ready(&self, facts: &Self::Facts) -> Result<(), String>;

    /// Returns the metrics. The number of samples must be bounded.
    fn metrics(&self, facts: &Self::Facts) -> Exposition;

    /// Returns the status as a JSON object in one line.
    fn status(&self, facts: &Self::Facts) -> String;

    /// Returns a further document of the API at a path such as `/api/v1/history`, or `None` if there is none.
    /// The document is JSON, and must be bounded.
    ///
    /// # Errors
    /// [`QueryError`] if the query has an invalid parameter.
    fn document(
        &self,
        facts: &Self::Facts,
        path: &str,
        query: Query<'_>,
    ) -> Result<Option<String>, QueryError> {
        let _ = (facts, path, query);
        Ok(None)
    }

    /// Returns a finished text without its secrets, such as signatures of URLs. The port applies the function
    /// to every text that it sends, except pages: documents, metrics and reasons. JSON must stay JSON.
    fn without_secrets(&self, text: String) -> String;

    /// Remembers the state for later viewers. The port calls this at intervals of [`HISTORY_EVERY`] if the
    /// process has a history.
    fn remember(&self, facts: &Self::Facts) {
        let _ = facts;
    }

    /// Returns the page at a path such as `/` or `/dashboard.js`. Pages need no token, so they must contain
    /// no data of the process.
    fn page(&self, path: &str) -> Option<Page>;
}
