//! Tests of what a port costs its process, under a virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Request, StatusCode};

use crate::exposition::Exposition;
use crate::guard::Guard;
use crate::page::Page;
use crate::respond::Responder;
use crate::subject::Subject;

/// A process that counts how often it is observed, and how often its status is written.
#[derive(Clone, Default)]
struct Process {
    observed: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl Subject for Process {
    type Facts = u64;

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

    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// Opens the live status, and returns the number of events that arrive within `time`.
async fn viewed(responder: Arc<Responder<Process>>, time: Duration) -> u64 {
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
    let process = Process::default();
    let responder = Arc::new(Responder::new(Guard::new(None, Vec::new()), process.clone()));
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
    let responder = Responder::new(Guard::new(None, Vec::new()), Process::default());
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
