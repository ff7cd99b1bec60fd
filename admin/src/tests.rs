//! Tests of what a port costs its process, under a virtual clock.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use hyper::{Request, StatusCode};

use crate::exposition::Exposition;
use crate::guard::Guard;
use crate::page::Page;
use crate::query::{Query, QueryError};
use crate::respond::Responder;
use crate::subject::Subject;

/// A process that counts how often it is observed, and how often its status is written.
#[derive(Clone, Default)]
struct Process<const HAS_HISTORY: bool> {
    observed: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    remembered: Arc<Mutex<Vec<u64>>>,
}

impl<const HAS_HISTORY: bool> Subject for Process<HAS_HISTORY> {
    type Facts = u64;

    const HAS_HISTORY: bool = HAS_HISTORY;

    async fn observe(&self) -> Result<u64, String> {
        Ok(self.observed.fetch_add(1, Ordering::Relaxed))
    }

    fn ready(&self, _: &u64) -> Result<(), String> {
        Ok(())
    }

    fn metrics(&self, _: &u64) -> Exposition {
        Exposition::new()
    }

    fn status(&self, observed: &u64) -> String {
        self.written.fetch_add(1, Ordering::Relaxed);
        format!("{{\"observed\":{observed}}}")
    }

    fn without_secrets(&self, text: String) -> String {
        text
    }

    fn remember(&self, observed: &u64) {
        self.remembered.lock().unwrap().push(*observed);
    }

    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// A process whose every text contains a secret.
struct Careless {
    is_observable: bool,
}

const SECRET: &str = "planted";

impl Subject for Careless {
    type Facts = ();

    async fn observe(&self) -> Result<(), String> {
        match self.is_observable {
            true => Ok(()),
            false => Err(format!("{SECRET}\r\nis gone")),
        }
    }

    fn ready(&self, (): &()) -> Result<(), String> {
        Err(SECRET.to_owned())
    }

    fn metrics(&self, (): &()) -> Exposition {
        let mut found = Exposition::new();
        found.gauge("loaders", "The loaders.", &[("loader", SECRET)], 1.0);
        found
    }

    fn status(&self, (): &()) -> String {
        format!("\"{SECRET}\"")
    }

    fn document(&self, (): &(), _: &str, query: Query<'_>) -> Result<Option<String>, QueryError> {
        query.number("job")?;
        Ok(Some(format!("\"{SECRET}\"")))
    }

    fn without_secrets(&self, text: String) -> String {
        text.replace(SECRET, "hidden")
    }

    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// Returns a port's parts for requests, without a guard.
fn responder<S: Subject>(process: S) -> Responder<S> {
    Responder::new(Guard::new(None, Vec::new()), process)
}

/// Opens the live status, and returns the number of events that arrive within `time`.
async fn viewed(responder: Arc<Responder<Process<false>>>, time: Duration) -> u64 {
    let request = Request::get("/api/v1/live").header("host", "localhost");
    let response = responder.respond(&request.body(()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let (mut events, mut count) = (response.into_body(), 0);
    let reading = async {
        while let Some(frame) = events.frame().await {
            assert!(frame.unwrap().data_ref().unwrap().starts_with(b"event: status\n"));
            count += 1;
        }
    };
    // The status has no end.
    tokio::time::timeout(time, reading).await.unwrap_err();
    count
}

#[tokio::test(start_paused = true)]
async fn staggered_viewers_share_each_status() {
    let process = Process::<false>::default();
    let responder = Arc::new(responder(process.clone()));
    let mut viewers = Vec::new();
    for _ in 0..10 {
        viewers.push(tokio::spawn(viewed(
            Arc::clone(&responder),
            Duration::from_secs(30),
        )));
        tokio::time::sleep(Duration::from_millis(90)).await;
    }
    let counts = || {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&process.observed), read(&process.written))
    };
    tokio::time::sleep(Duration::from_millis(600)).await;
    let (observed, written) = counts();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(counts(), (observed + 20, written + 20));
    for viewer in viewers {
        assert!(viewer.await.unwrap() >= 30);
    }
}

#[tokio::test(start_paused = true)]
async fn viewers_share_the_bytes_of_events() {
    let responder = responder(Process::<false>::default());
    let mut bytes = Vec::new();
    for path in ["/api/v1/live", "/api/v1/live", "/api/v1/status"] {
        let request = Request::get(path).header("host", "localhost");
        let response = responder.respond(&request.body(()).unwrap()).await;
        let frame = response.into_body().frame().await.unwrap().unwrap();
        bytes.push(frame.into_data().unwrap());
    }
    assert_eq!(bytes[0], "event: status\ndata: {\"observed\":0}\n\n");
    assert_eq!(bytes[0].as_ptr(), bytes[1].as_ptr());
    let status = bytes[0].slice_ref(&bytes[2]);
    assert_eq!(status, "{\"observed\":0}");
}

#[tokio::test(start_paused = true)]
async fn viewers_of_gzip_share_one_compression() {
    let responder = responder(Process::<false>::default());
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let request = Request::get("/api/v1/live").header("host", "localhost");
        let request = request.header("accept-encoding", "gzip, deflate, br");
        let response = responder.respond(&request.body(()).unwrap()).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        bodies.push(response.into_body());
        // The second viewer comes between two statuses, and receives the first status as well.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut frames = [Vec::new(), Vec::new()];
    // The header of gzip, and three statuses.
    for _ in 0..4 {
        for (body, frames) in bodies.iter_mut().zip(&mut frames) {
            let frame = body.frame().await.unwrap().unwrap();
            frames.push(frame.into_data().unwrap());
        }
    }
    let texts = frames.each_ref().map(|frames| {
        let mut text = vec![0; 3 * "event: status\ndata: {\"observed\":0}\n\n".len()];
        let stream = frames.concat();
        GzDecoder::new(&stream[..]).read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    let events = [0, 1, 2].map(|number| format!("event: status\ndata: {{\"observed\":{number}}}\n\n"));
    assert_eq!(texts, [events.concat(), events.concat()]);
    assert_eq!(frames[0][1].as_ptr(), frames[1][1].as_ptr());
}

#[tokio::test(start_paused = true)]
async fn histories_grow_without_viewers() {
    let process = Process::<true>::default();
    let observer = responder(process.clone()).observer();
    let remembering = tokio::spawn(async move { observer.remember_for_ever().await });
    tokio::time::sleep(Duration::from_secs(3601)).await;
    // One observation at once, and then one every five seconds.
    let expected: Vec<u64> = (0..=720).collect();
    assert_eq!(*process.remembered.lock().unwrap(), expected);
    remembering.abort();
}

#[tokio::test(start_paused = true)]
async fn processes_without_history_are_left_alone() {
    let process = Process::<false>::default();
    let observer = responder(process.clone()).observer();
    let remembering = tokio::spawn(async move { observer.remember_for_ever().await });
    tokio::time::sleep(Duration::from_secs(3601)).await;
    assert_eq!(process.observed.load(Ordering::Relaxed), 0);
    assert!(process.remembered.lock().unwrap().is_empty());
    remembering.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_answer_contains_a_secret() {
    for is_observable in [true, false] {
        let responder = responder(Careless { is_observable });
        for path in [
            "/livez",
            "/readyz",
            "/metrics",
            "/api/v1/status",
            "/api/v1/history",
            "/api/v1/history?job=planted",
            "/api/v1/live",
        ] {
            let request = Request::get(path).header("host", "localhost");
            let response = responder.respond(&request.body(()).unwrap()).await;
            let frame = response.into_body().frame().await.unwrap().unwrap();
            let text = String::from_utf8(frame.into_data().unwrap().into()).unwrap();
            assert!(!text.contains(SECRET), "{path}: {text}");
            // A living process says nothing of itself.
            let is_silent = is_observable && path == "/livez";
            assert!(text.contains("hidden") != is_silent, "{path}: {text}");
            assert!(!text.contains('\r') || path != "/api/v1/live", "{text:?}");
        }
    }
}
