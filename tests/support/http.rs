//! Requests to an admin port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Returns an address with a free port.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// Sends a request with further headers, and returns the whole answer.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut answer = String::new();
    let mut stream = request(address, path, headers);
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Opens the live status with further headers, and returns the answer up to the end of its first event.
pub(crate) fn first_event(address: SocketAddr, headers: &str) -> String {
    let mut answer = Vec::new();
    let mut stream = request(address, "/api/v1/live", headers);
    while !answer.windows(2).any(|end| end == b"\n\n") {
        let mut part = [0; 1 << 12];
        let count = stream.read(&mut part).expect("an event");
        assert!(count > 0, "the stream ended before its first event");
        answer.extend_from_slice(&part[..count]);
    }
    String::from_utf8(answer).expect("UTF-8")
}

/// Sends a request with further headers.
fn request(address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

/// Returns the body of an answer.
pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
