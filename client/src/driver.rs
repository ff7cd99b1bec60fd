//! Keeps a link to one worker: connects, carries frames, and reconnects after a failure.
//!
//! This file owns the pauses between attempts and the decision to give up. This file does not know credits
//! and elements.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::transport::{ClientLink, LinkLost};
use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::connector::{Connected, Connector, NotConnected};
use crate::error::ReadError;
use crate::place::WorkerPlace;
use crate::waiter::Waiter;

/// The first pause after a failure. Each further failure doubles the pause.
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// Longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Keeps a link to `worker` until the reader needs none of its tasks. After `give_up` without a connection,
/// the worker counts as given up: reading fails once only such workers have tasks left.
pub(crate) async fn drive(
    waiter: Arc<Waiter>,
    connector: Arc<dyn Connector>,
    worker: String,
    give_up: Duration,
) {
    let intake = waiter.intake();
    let mut backoff = BACKOFF_MIN;
    while let Some(place) = intake.place_if_wanted(&worker) {
        let failed = match connector.connect(&place, intake.clone()).await {
            Ok(Connected { link, not_better }) => {
                let connected_at = Instant::now();
                let lost = carry(&waiter, &*connector, &place, Connected { link, not_better }).await;
                match lost {
                    LinkLost::Misbehaved(reason) => {
                        return intake.fail(ReadError::WorkerMisbehaved { worker, reason });
                    }
                    LinkLost::Blamed(reason) => {
                        return intake.fail(ReadError::ReaderMisbehaved { worker, reason });
                    }
                    LinkLost::Closed(_) | LinkLost::Broken(_) => {
                        intake.act(|core| core.note_suspect(&worker))
                    }
                    LinkLost::Full(_) | LinkLost::Resource(_) => {}
                }
                // A link that broke soon after it was made counts as a failed attempt, unless the worker had
                // accepted a subscription on the link.
                if connected_at.elapsed() > BACKOFF_MAX {
                    backoff = BACKOFF_MIN;
                    intake.act(|core| core.note_stood(&worker));
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

/// Carries frames over an established link until the link is lost.
async fn carry(
    waiter: &Waiter,
    connector: &dyn Connector,
    place: &WorkerPlace,
    connected: Connected,
) -> LinkLost {
    let (worker, intake) = (place.address.as_str(), waiter.intake());
    let Connected { link, not_better } = connected;
    let (is_local, copies) = (!link.is_network(), intake.copies().of_link(worker));
    let carrier = Arc::new(Carrier::new(worker.into(), link, not_better, copies));
    // The guard also ends the link when this future is dropped.
    let carried = Carried {
        waiter,
        carrier: &carrier,
    };
    waiter.add_carrier(&carrier);
    intake.handle_link_up(worker, place, is_local);
    let lost = poll_fn(|cx| carrier.poll(intake, cx)).await;
    if let Some(mut link) = carried.end() {
        link.close(&lost);
        connector.note_lost(place, link.report().transport, &lost);
    }
    intake.handle_link_lost(worker);
    lost
}

/// A registered link, which the consumer's thread may also carry. Dropping this guard unregisters and ends
/// the link.
struct Carried<'a> {
    waiter: &'a Waiter,
    carrier: &'a Arc<Carrier>,
}

impl Carried<'_> {
    fn end(&self) -> Option<Box<ClientLink>> {
        self.waiter.remove_carrier(self.carrier);
        self.carrier.end()
    }
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        drop(self.end());
    }
}
