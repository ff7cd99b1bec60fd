//! The latest observation of a process, which all requests of a quarter of a second share, and its texts.
//!
//! Every text of the process passes through [`Subject::without_secrets`] here, so that no answer can forget
//! the function.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::gzip;
use crate::page::Page;
use crate::query::Query;
use crate::subject::{HISTORY_EVERY, Subject};

/// The age from which on an observation is repeated.
const FRESH: Duration = Duration::from_millis(250);
/// The time after which an observation is given up.
const DEADLINE: Duration = Duration::from_secs(5);

/// The bytes before and after a status in its server-sent event.
const EVENT_START: &[u8] = b"event: status\ndata: ";
const EVENT_END: &[u8] = b"\n\n";

/// A process and its latest observation.
pub(crate) struct Observer<S: Subject> {
    subject: S,
    latest: Mutex<Option<Arc<Observation<S::Facts>>>>,
}

/// The state of a process at one moment, which all viewers share.
pub(crate) struct Observation<F> {
    at: Instant,
    pub(crate) facts: F,
    /// The status as a server-sent event, once a viewer has asked for the status.
    event: OnceLock<Bytes>,
    /// The event as a part of a gzip stream, once a viewer has asked for such a stream.
    gzip_event: OnceLock<Bytes>,
}

impl<S: Subject> Observer<S> {
    pub(crate) fn new(subject: S) -> Observer<S> {
        Observer {
            subject,
            latest: Mutex::new(None),
        }
    }

    /// Returns a page, which contains no text of the process.
    pub(crate) fn page(&self, path: &str) -> Option<Page> {
        self.subject.page(path)
    }

    /// Returns an observation that is at most a quarter of a second old. Requests that arrive at the same
    /// time wait for one observation. Cancel-safe.
    ///
    /// # Errors
    /// The reason why the process cannot be observed.
    pub(crate) async fn observe(&self) -> Result<Arc<Observation<S::Facts>>, String> {
        self.observe_for(Instant::now()).await
    }

    /// Returns an observation that was made after `moment`, or at most a quarter of a second before. Callers
    /// with the same moment thus share an observation, however late each of them runs. Cancel-safe.
    ///
    /// # Errors
    /// The reason why the process cannot be observed.
    pub(crate) async fn observe_for(&self, moment: Instant) -> Result<Arc<Observation<S::Facts>>, String> {
        let observed = tokio::time::timeout(DEADLINE, self.observe_in_turn(moment)).await;
        observed.map_err(|_| {
            format!(
                "the process did not answer its own admin port within {} s",
                DEADLINE.as_secs()
            )
        })?
    }

    async fn observe_in_turn(&self, moment: Instant) -> Result<Arc<Observation<S::Facts>>, String> {
        let mut latest = self.latest.lock().await;
        if let Some(observation) = &*latest
            && moment.saturating_duration_since(observation.at) < FRESH
        {
            return Ok(Arc::clone(observation));
        }
        let facts = self.subject.observe().await;
        let facts = facts.map_err(|reason| self.subject.without_secrets(reason))?;
        let observation = Arc::new(Observation {
            at: Instant::now(),
            facts,
            event: OnceLock::new(),
            gzip_event: OnceLock::new(),
        });
        *latest = Some(Arc::clone(&observation));
        Ok(observation)
    }

    /// Lets a process with a history remember its states, for ever. An observation that fails is left out.
    /// Returns at once for a process without a history.
    pub(crate) async fn remember_for_ever(&self) {
        if !S::HAS_HISTORY {
            return;
        }
        let mut interval = tokio::time::interval(HISTORY_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            match self.observe().await {
                Ok(observation) => self.subject.remember(&observation.facts),
                Err(reason) => tracing::debug!(reason, "the history has a gap"),
            }
        }
    }

    /// Returns whether the process can serve others now.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub(crate) fn ready(&self, observation: &Observation<S::Facts>) -> Result<(), String> {
        let ready = self.subject.ready(&observation.facts);
        ready.map_err(|reason| self.subject.without_secrets(reason))
    }

    /// Returns the metrics in the text format of Prometheus.
    pub(crate) fn metrics(&self, observation: &Observation<S::Facts>) -> String {
        let metrics = self.subject.metrics(&observation.facts);
        self.subject.without_secrets(metrics.to_text())
    }

    /// Returns a further document, or `None` if there is none at the path.
    ///
    /// # Errors
    /// The reason why the query is invalid.
    pub(crate) fn document(
        &self,
        observation: &Observation<S::Facts>,
        path: &str,
        query: Query<'_>,
    ) -> Result<Option<String>, String> {
        let hide = |text| self.subject.without_secrets(text);
        match self.subject.document(&observation.facts, path, query) {
            Ok(document) => Ok(document.map(hide)),
            Err(error) => Err(hide(error.to_string())),
        }
    }

    /// Returns the status as a server-sent event, which is written once for all viewers. All viewers share
    /// the bytes.
    pub(crate) fn status_event(&self, observation: &Observation<S::Facts>) -> Bytes {
        let write = || {
            let status = self
                .subject
                .without_secrets(self.subject.status(&observation.facts));
            Bytes::from([EVENT_START, status.as_bytes(), EVENT_END].concat())
        };
        observation.event.get_or_init(write).clone()
    }

    /// Returns the event as a part of a gzip stream, which is compressed once for all viewers.
    pub(crate) fn gzip_event(&self, observation: &Observation<S::Facts>) -> Bytes {
        let compress = || gzip::part(&self.status_event(observation));
        observation.gzip_event.get_or_init(compress).clone()
    }

    /// Returns the status as JSON: the part of the event that all viewers share.
    pub(crate) fn status(&self, observation: &Observation<S::Facts>) -> Bytes {
        let event = self.status_event(observation);
        event.slice(EVENT_START.len()..event.len() - EVENT_END.len())
    }
}
