//! The live status: server-sent events, which all viewers receive at the same moments.
//!
//! One observation, and one writing of it, serves all viewers of a moment.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::body::Body;
use crate::observer::Observer;
use crate::subject::Subject;

/// The maximum number of viewers that receive the status live. Every further viewer is told to come back.
pub(crate) const VIEWERS_MAX: usize = 32;

/// The live viewers of one port.
pub(crate) struct Live<S: Subject> {
    observer: Arc<Observer<S>>,
    places: Arc<Semaphore>,
    /// The moment from which the whole seconds of all viewers count.
    begun: Instant,
}

impl<S: Subject> Live<S> {
    pub(crate) fn new(observer: Arc<Observer<S>>) -> Live<S> {
        Live {
            observer,
            places: Arc::new(Semaphore::new(VIEWERS_MAX)),
            begun: Instant::now(),
        }
    }

    /// Returns the status at once, and then at every whole second of the port, as server-sent events. A
    /// status that is unknown is an event `unknown` with the reason. Returns `None` without room for another
    /// viewer.
    pub(crate) fn view(&self) -> Option<Body> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (observer, begun) = (Arc::clone(&self.observer), self.begun);
        let events = stream::unfold((Instant::now(), place), move |(due, place)| {
            let observer = Arc::clone(&observer);
            async move {
                tokio::time::sleep_until(due).await;
                let frame = Ok::<_, Infallible>(Frame::data(event(&observer, due).await));
                Some((frame, (next_due(begun, Instant::now()), place)))
            }
        });
        Some(StreamBody::new(events).boxed_unsync())
    }
}

/// Returns the event of a moment.
async fn event<S: Subject>(observer: &Observer<S>, due: Instant) -> Bytes {
    match observer.observe_for(due).await {
        Ok(seen) => observer.status_event(&seen),
        Err(reason) => Bytes::from(format!(
            "event: unknown\ndata: {}\n\n",
            reason.replace(['\r', '\n'], " ")
        )),
    }
}

/// Returns the first whole second since `begun` that is later than `now`. A viewer that was slow leaves
/// seconds out.
fn next_due(begun: Instant, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(begun);
    begun + Duration::from_secs(passed.as_secs() + 1)
}
