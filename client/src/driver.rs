//! Keeps a link to one worker: connects, carries frames, connects again.
//!
//! Owns the waits between attempts and the decision to give up. Refuses to know credits and elements.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use millstream_dataplane::proto::message::ToClient;
use millstream_dataplane::transport::{Admission, ClientLink, Downstream, InPack, LinkLost, LinkReport};
use tokio::time::Instant;

use crate::error::ReadError;
use crate::intake::Intake;
use crate::place::WorkerPlace;

/// First wait after a failure; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// Longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Steps of a link between two reports on it.
const STEPS_PER_REPORT: u64 = 64;

/// A link, and what kept it from being a better one.
#[derive(Debug)]
pub struct Connected {
    /// The reader's end.
    pub link: Box<ClientLink>,
    /// Why it is not by a better transport, if there is one; becomes [`LinkReport::not_better`].
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

/// A link in the making.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, String>> + Send + 'a>>;

/// Makes links to workers; chooses how by where they are.
pub trait Connector: Send + Sync + Debug {
    /// Connects to this worker, within a bounded time. Errors say what was tried.
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a>;

    /// Hears that a link of this transport was lost, so that another may be chosen for the next.
    fn note_lost(&self, _worker: &WorkerPlace, _transport: &'static str, _why: &LinkLost) {}
}

/// Keeps the link to `worker` until nothing of it is wanted or it was out of reach for `give_up`.
pub(crate) async fn drive(
    intake: Arc<Intake>,
    connector: Arc<dyn Connector>,
    worker: String,
    give_up: Duration,
) {
    let mut backoff = BACKOFF_MIN;
    let mut failing_since: Option<Instant> = None;
    while let Some(place) = intake.place_if_wanted(&worker) {
        let reason = match connector.connect(&place, intake.clone()).await {
            Ok(Connected { mut link, not_better }) => {
                intake.handle_link_up(&worker, &place, !link.is_network());
                let connected_at = Instant::now();
                let (mut steps, mut is_greeted) = (0, false);
                let mut copies = intake.copies().of_link(&worker);
                let lost = poll_fn(|cx| {
                    if u64::is_multiple_of(steps, STEPS_PER_REPORT) {
                        let not_better = not_better.clone();
                        let report = link.report();
                        intake.note_link(&worker, LinkReport { not_better, ..report });
                    }
                    steps += 1;
                    let lost = carry(&intake, &worker, &mut *link, &mut is_greeted, cx);
                    copies.note(link.bytes_copied());
                    lost
                })
                .await;
                link.close(&lost);
                connector.note_lost(&place, link.report().transport, &lost);
                drop(link);
                intake.handle_link_lost(&worker);
                match lost {
                    LinkLost::Misbehaved(reason) => {
                        return intake.fail(ReadError::WorkerMisbehaved { worker, reason });
                    }
                    LinkLost::Blamed(reason) => {
                        return intake.fail(ReadError::ReaderMisbehaved { worker, reason });
                    }
                    LinkLost::Closed(_) | LinkLost::Broken(_) | LinkLost::Resource(_) => {}
                }
                // A link that broke at once is a failure like any other.
                if connected_at.elapsed() > BACKOFF_MAX {
                    (backoff, failing_since) = (BACKOFF_MIN, None);
                }
                lost.to_string()
            }
            Err(reason) => reason,
        };
        let since = *failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() > give_up {
            let after_s = since.elapsed().as_secs();
            let error = ReadError::WorkerUnreachable {
                worker: worker.clone(),
                reason,
                after_s,
            };
            return intake.give_up(&worker, error);
        }
        tracing::debug!(%worker, %reason, ?backoff, "worker cannot be reached, trying again");
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Carries frames both ways until the link is lost.
fn carry(
    intake: &Intake,
    worker: &str,
    link: &mut ClientLink,
    is_greeted: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<LinkLost> {
    while let Poll::Ready(frame) = link.poll_recv(cx) {
        let handled = frame.and_then(|frame| {
            check_greeting(&frame, is_greeted)?;
            intake.handle(worker, frame)
        });
        if let Err(lost) = handled {
            return Poll::Ready(lost);
        }
    }
    while let Poll::Ready(ready) = link.poll_ready(cx) {
        if let Err(lost) = ready {
            return Poll::Ready(lost);
        }
        let message = match intake.poll_outbox(worker, cx) {
            Poll::Ready(Some(message)) => message,
            Poll::Ready(None) => {
                let reason = "its worker was started again, and is reached another way".to_owned();
                return Poll::Ready(LinkLost::Closed(reason));
            }
            Poll::Pending => break,
        };
        if let Err(lost) = link.try_send(message) {
            return Poll::Ready(lost);
        }
    }
    Poll::Pending
}

/// Checks that a worker's first message greets in this version (D1.1). Packs travel apart and may overtake it.
fn check_greeting(frame: &Downstream<InPack>, is_greeted: &mut bool) -> Result<(), LinkLost> {
    match frame {
        Downstream::Message(ToClient::Hello(hello)) => {
            hello.check()?;
            *is_greeted = true;
        }
        Downstream::Message(_) if !*is_greeted => {
            return Err(LinkLost::Misbehaved("it spoke before it said hello".into()));
        }
        Downstream::Message(_) | Downstream::Pack(_) => {}
    }
    Ok(())
}
