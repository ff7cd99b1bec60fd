//! Tests of an open admin port over TCP, as a browser, Prometheus and an attacker use it.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream_admin::{
    AdminConfig, AdminError, AdminPort, AdminToken, Exposition, Page, Query, QueryError, Subject,
};
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef";

/// A process that counts how often it is observed, and how often its status is written.
#[derive(Clone, Default)]
struct Process {
    observed: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    is_hanging: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
    remembered: Arc<Mutex<Vec<u64>>>,
}

impl Subject for Process {
    type Facts = u64;

    const HAS_HISTORY: bool = true;

    async fn observe(&self) -> Result<u64, String> {
        if self.is_hanging.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(self.observed.fetch_add(1, Ordering::Relaxed))
    }

    fn ready(&self, _: &u64) -> Result<(), String> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err("the store is full".to_owned()),
            false => Ok(()),
        }
    }

    fn metrics(&self, observed: &u64) -> Exposition {
        let mut found = Exposition::new();
        found.gauge("observations", "The observations.", &[], *observed as f64);
        found
    }

    fn status(&self, observed: &u64) -> String {
        self.written.fetch_add(1, Ordering::Relaxed);
        json!({ "observed": observed }).to_string()
    }

    fn document(&self, _: &u64, path: &str, query: Query<'_>) -> Result<Option<String>, QueryError> {
        if path != "/api/v1/history" {
            return Ok(None);
        }
        let (job, remembered) = (query.number("job")?, self.remembered.lock().unwrap());
        Ok(Some(json!({ "job": job, "observed": *remembered }).to_string()))
    }

    fn without_secrets(&self, text: String) -> String {
        text
    }

    fn remember(&self, observed: &u64) {
        self.remembered.lock().unwrap().push(*observed);
    }

    fn page(&self, path: &str) -> Option<Page> {
        (path == "/").then_some(Page {
            media_type: "text/html; charset=utf-8",
            content: b"<!doctype html>",
        })
    }
}

fn open(process: &Process) -> AdminPort {
    let config = AdminConfig {
        bind: "127.0.0.1:0".parse().unwrap(),
        token: None,
        hosts: Vec::new(),
    };
    AdminPort::open(config, process.clone()).unwrap()
}

/// Sends the head of a request, and returns the whole answer.
fn answer(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(address: SocketAddr, path: &str) -> String {
    answer(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost"))
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn metrics_probes_status_and_pages_are_served() {
    let process = Process::default();
    let port = open(&process);
    let address = port.local_addr();
    let metrics = get(address, "/metrics");
    assert!(
        metrics.contains("content-type: text/plain; version=0.0.4"),
        "{metrics}"
    );
    assert!(body(&metrics).contains("\nmillstream_observations "));
    assert_eq!(
        (status(&get(address, "/livez")), body(&get(address, "/readyz"))),
        (200, "ok\n")
    );
    let json: Value = serde_json::from_str(body(&get(address, "/api/v1/status"))).unwrap();
    assert!(json["observed"].is_u64());
    let page = get(address, "/");
    assert!(
        body(&page).starts_with("<!doctype html>")
            && page.contains("content-security-policy: default-src 'none'")
    );
    let missing = get(address, "/wp-login.php");
    assert_eq!(status(&missing), 404);
    assert!(body(&missing).contains("/metrics"));
    let head = answer(address, "HEAD /metrics HTTP/1.1\r\nhost: localhost");
    assert_eq!((status(&head), body(&head)), (200, ""));
}

#[test]
fn further_documents_are_selected_by_path() {
    let process = Process::default();
    let port = open(&process);
    let document = |path| {
        let answer = get(port.local_addr(), path);
        assert!(answer.contains("content-type: application/json"), "{answer}");
        serde_json::from_str::<Value>(body(&answer)).unwrap()
    };
    assert_eq!(document("/api/v1/history")["job"], Value::Null);
    assert_eq!(document("/api/v1/history?job=1001")["job"], 1001);
    assert_eq!(status(&get(port.local_addr(), "/api/v1/nothing")), 404);
    let invalid = get(port.local_addr(), "/api/v1/history?job=abc");
    let expected = "invalid job \"abc\": expected a number, such as job=1001\n";
    assert_eq!((status(&invalid), body(&invalid)), (400, expected));
}

#[test]
fn states_are_remembered_without_viewers() {
    let process = Process::default();
    let port = open(&process);
    let deadline = Instant::now() + Duration::from_secs(60);
    while process.remembered.lock().unwrap().len() < 2 {
        assert!(Instant::now() < deadline, "the port does not remember for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    // No request made these observations: each was made for the history, and is remembered once.
    let history = get(port.local_addr(), "/api/v1/history");
    let history: Value = serde_json::from_str(body(&history)).unwrap();
    assert_eq!(history["observed"], json!([0, 1]));
}

#[test]
fn a_process_that_is_not_ready_says_why() {
    let process = Process::default();
    let port = open(&process);
    process.is_full.store(true, Ordering::Relaxed);
    let ready = get(port.local_addr(), "/readyz");
    assert_eq!((status(&ready), body(&ready)), (503, "the store is full\n"));
    assert_eq!(status(&get(port.local_addr(), "/livez")), 200);
}

#[test]
fn a_hanging_process_is_not_alive() {
    let process = Process::default();
    let port = open(&process);
    process.is_hanging.store(true, Ordering::Relaxed);
    let live = get(port.local_addr(), "/livez");
    assert_eq!(status(&live), 503);
    assert!(
        body(&live).contains("did not answer its own admin port within 5 s"),
        "{live}"
    );
}

#[test]
fn foreign_requests_are_refused() {
    let port = open(&Process::default());
    let address = port.local_addr();
    for (head, expected) in [
        ("POST /metrics HTTP/1.1\r\nhost: localhost", 405),
        ("GET /metrics HTTP/1.1\r\nhost: evil.example", 421),
        (
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example",
            403,
        ),
        (
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site",
            403,
        ),
    ] {
        let refused = answer(address, head);
        assert_eq!(status(&refused), expected, "{refused}");
        assert!(!refused.contains("millstream_observations"));
    }
    assert!(answer(address, "PUT / HTTP/1.1\r\nhost: localhost").contains("allow: GET, HEAD"));
}

#[test]
fn a_port_beyond_loopback_needs_a_token() {
    let anywhere = |token| AdminConfig {
        bind: "0.0.0.0:0".parse().unwrap(),
        token,
        hosts: Vec::new(),
    };
    let error = AdminPort::open(anywhere(None), Process::default()).unwrap_err();
    assert!(matches!(error, AdminError::TokenMissing(_)));
    assert!(error.to_string().contains("--admin-token-file"), "{error}");
    let token = AdminToken::new(TOKEN).unwrap();
    let port = AdminPort::open(anywhere(Some(token)), Process::default()).unwrap();
    let address = SocketAddr::new("127.0.0.1".parse().unwrap(), port.local_addr().port());
    let refused = get(address, "/metrics");
    assert_eq!(status(&refused), 401);
    assert!(refused.contains("www-authenticate: Bearer") && !refused.contains(TOKEN));
    assert_eq!(status(&get(address, "/readyz")), 200);
    let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}");
    assert_eq!(status(&answer(address, &head)), 200);
}

#[test]
fn an_occupied_address_is_named() {
    let port = open(&Process::default());
    let config = AdminConfig {
        bind: port.local_addr(),
        token: None,
        hosts: Vec::new(),
    };
    let error = AdminPort::open(config, Process::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&port.local_addr().to_string()) && error.contains("--admin"),
        "{error}"
    );
}

/// Opens the live status, and returns its lines.
fn live(address: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(b"GET /api/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    BufReader::new(stream)
}

/// Returns the next line that begins with `prefix`.
fn next_line(lines: &mut BufReader<TcpStream>, prefix: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "the stream ended before {prefix:?}"
        );
        if line.starts_with(prefix) {
            return line;
        }
    }
}

#[test]
fn viewers_receive_the_status_again_and_again() {
    let begun = Instant::now();
    let process = Process::default();
    let port = open(&process);
    let mut viewers: Vec<_> = (0..32).map(|_| live(port.local_addr())).collect();
    for viewer in &mut viewers {
        next_line(viewer, "event: status");
        next_line(viewer, "data: {\"observed\":");
    }
    let written = process.written.load(Ordering::Relaxed);
    let observed = process.observed.load(Ordering::Relaxed);
    assert!(
        written <= observed,
        "{written} statuses of {observed} observations"
    );
    // However slow the machine is, one observation serves all viewers for a quarter of a second.
    let quarters = begun.elapsed().as_millis() / 250;
    assert!(u128::from(observed) <= quarters + 1, "{observed} in {quarters}");
    let refused = get(port.local_addr(), "/api/v1/live");
    assert_eq!(status(&refused), 503, "{refused}");
    next_line(&mut viewers[0], "event: status");
    process.is_hanging.store(true, Ordering::Relaxed);
    next_line(&mut viewers[0], "event: unknown");
    viewers.clear();
    process.is_hanging.store(false, Ordering::Relaxed);
    // The room of a viewer that has left is free after the next write to it.
    let mut later = loop {
        let mut viewer = live(port.local_addr());
        let mut first = String::new();
        viewer.read_line(&mut first).unwrap();
        if first.contains(" 200 ") {
            break viewer;
        }
    };
    next_line(&mut later, "event: status");
}

#[test]
fn oversized_heads_and_garbage_harm_nobody() {
    let port = open(&Process::default());
    let large = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(64 << 10));
    for head in [large.as_str(), "\0\u{1}garbage", "GET"] {
        let mut stream = TcpStream::connect(port.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The port may close the connection before it has read everything.
        stream.write_all(head.as_bytes()).ok();
        stream.write_all(b"\r\n\r\n").ok();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).ok();
        let text = String::from_utf8_lossy(&text);
        assert!(text.is_empty() || (400..500).contains(&status(&text)), "{text}");
    }
    assert_eq!(status(&get(port.local_addr(), "/livez")), 200);
}
