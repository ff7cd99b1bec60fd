//! The live status: server-sent events, which all viewers receive at the same moments.
//!
//! One observation, one writing of it and one compression serve all viewers of a moment.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::body::Body;
use crate::gzip;
use crate::observer::Observer;
use crate::subject::Subject;

/// The maximum number of viewers that receive the status live. Every further viewer is told to come back.
pub(crate) const VIEWERS_MAX: usize = 32;

/// The coding of a viewer's events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    /// The text itself.
    Identity,
    /// One gzip stream for as long as the viewer stays.
    Gzip,
}

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
    pub(crate) fn view(&self, coding: Coding) -> Option<Body> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (observer, begun) = (Arc::clone(&self.observer), self.begun);
        let events = stream::unfold((Instant::now(), place), move |(due, place)| {
            let observer = Arc::clone(&observer);
            async move {
                tokio::time::sleep_until(due).await;
                let event = event(&observer, due, coding).await;
                Some((event, (next_due(begun, Instant::now()), place)))
            }
        });
        let header = match coding {
            Coding::Identity => None,
            Coding::Gzip => Some(gzip::HEADER),
        };
        let bytes = stream::iter(header).chain(events);
        let frames = bytes.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        Some(StreamBody::new(frames).boxed_unsync())
    }
}

/// Returns the event of a moment.
async fn event<S: Subject>(observer: &Observer<S>, due: Instant, coding: Coding) -> Bytes {
    match (observer.observe_for(due).await, coding) {
        (Ok(seen), Coding::Identity) => observer.status_event(&seen),
        (Ok(seen), Coding::Gzip) => observer.gzip_event(&seen),
        (Err(reason), Coding::Identity) => unknown_event(&reason).into(),
        (Err(reason), Coding::Gzip) => gzip::part(unknown_event(&reason).as_bytes()),
    }
}

fn unknown_event(reason: &str) -> String {
    format!("event: unknown\ndata: {}\n\n", reason.replace(['\r', '\n'], " "))
}

/// Returns the first whole second since `begun` that is later than `now`. A viewer that was slow leaves
/// seconds out.
fn next_due(begun: Instant, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(begun);
    begun + Duration::from_secs(passed.as_secs() + 1)
}
