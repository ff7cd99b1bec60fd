//! Keeps a link to one worker: connects, carries frames, connects again.
//!
//! Owns the waits between attempts and the decision to give up. Refuses to know credits and elements.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::transport::{Admission, ClientLink, LinkLost};
use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::error::ReadError;
use crate::intake::Intake;
use crate::place::WorkerPlace;

/// First wait after a failure; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// Longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// A link, and what kept it from being a better one.
#[derive(Debug)]
pub struct Connected {
    /// The reader's end.
    pub link: Box<ClientLink>,
    /// Why it is not by a better transport, if there is one; becomes
    /// [`LinkReport::not_better`](millstream_dataplane::transport::LinkReport::not_better).
    pub not_better: Option<Arc<str>>,
}

impl From<Box<ClientLink>> for Connected {
    /// There is nothing better.
    fn from(link: Box<ClientLink>) -> Self {
        Self {
            link,
            not_better: None,
        }
    }
}

/// Why an attempt to reach a worker came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConnected {
    /// What was tried, and how it failed.
    pub reason: String,
    /// Whether the worker is there, and takes no further link.
    pub is_full: bool,
}

impl From<String> for NotConnected {
    /// The worker cannot be reached.
    fn from(reason: String) -> Self {
        Self {
            reason,
            is_full: false,
        }
    }
}

impl From<LinkLost> for NotConnected {
    fn from(lost: LinkLost) -> Self {
        Self {
            is_full: matches!(lost, LinkLost::Full(_)),
            reason: lost.to_string(),
        }
    }
}

/// A link in the making.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, NotConnected>> + Send + 'a>>;

/// Makes links to workers; chooses how by where they are.
pub trait Connector: Send + Sync + Debug {
    /// Connects to this worker, within a bounded time. Errors say what was tried.
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a>;

    /// Hears that a link of this transport was lost, so that another may be chosen for the next.
    fn note_lost(&self, _worker: &WorkerPlace, _transport: &'static str, _why: &LinkLost) {}
}

/// Keeps the link to `worker` until nothing of it is wanted. Out of reach for `give_up` it is waited for no longer than for others.
pub(crate) async fn drive(
    intake: Arc<Intake>,
    connector: Arc<dyn Connector>,
    worker: String,
    give_up: Duration,
) {
    let mut backoff = BACKOFF_MIN;
    while let Some(place) = intake.place_if_wanted(&worker) {
        let failed = match connector.connect(&place, intake.clone()).await {
            Ok(Connected { link, not_better }) => {
                let connected_at = Instant::now();
                let lost = carry(&intake, &*connector, &place, Connected { link, not_better }).await;
                match lost {
                    LinkLost::Misbehaved(reason) => {
                        return intake.fail(ReadError::WorkerMisbehaved { worker, reason });
                    }
                    LinkLost::Blamed(reason) => {
                        return intake.fail(ReadError::ReaderMisbehaved { worker, reason });
                    }
                    LinkLost::Closed(_) | LinkLost::Broken(_) => intake.note_suspect(&worker),
                    LinkLost::Full(_) | LinkLost::Resource(_) => {}
                }
                // A link that broke at once is a failure like any other, unless the worker had answered for a task on it.
                if connected_at.elapsed() > BACKOFF_MAX {
                    backoff = BACKOFF_MIN;
                    intake.note_stood(&worker);
                }
                NotConnected::from(lost)
            }
            Err(failed) => failed,
        };
        tracing::debug!(%worker, reason = failed.reason, ?backoff, "worker cannot be reached, trying again");
        intake.note_failed_attempt(&worker, &failed, give_up);
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Carries frames over a link that stands until it is lost.
async fn carry(
    intake: &Arc<Intake>,
    connector: &dyn Connector,
    place: &WorkerPlace,
    connected: Connected,
) -> LinkLost {
    let worker = place.address.as_str();
    let Connected { link, not_better } = connected;
    let (is_local, copies) = (!link.is_network(), intake.copies().of_link(worker));
    let carrier = Arc::new(Carrier::new(worker.into(), link, not_better, copies));
    // Also when this future is dropped.
    let carried = Carried {
        intake,
        carrier: &carrier,
    };
    intake.add_carrier(&carrier);
    intake.handle_link_up(worker, place, is_local);
    let lost = poll_fn(|cx| carrier.poll(intake, cx)).await;
    if let Some(mut link) = carried.end() {
        link.close(&lost);
        connector.note_lost(place, link.report().transport, &lost);
    }
    intake.handle_link_lost(worker);
    lost
}

/// A link that the consumer may carry, too, until this goes.
struct Carried<'a> {
    intake: &'a Intake,
    carrier: &'a Arc<Carrier>,
}

impl Carried<'_> {
    fn end(&self) -> Option<Box<ClientLink>> {
        self.intake.remove_carrier(self.carrier);
        self.carrier.end()
    }
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        drop(self.end());
    }
}
