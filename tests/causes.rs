//! Tests of the overview sentence with causes outside of the service: slow storage.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};
use serde_json::Value;

use crate::support::cluster::fresh_key;
use crate::support::http::{body, free_port, get};
use crate::support::process::Process;
use crate::support::{eventually, watched};

/// The lines of the file, and their length.
const LINES: usize = 40_000;
const LINE: &str = "thirty-one letters and one end.\n";
/// The bytes that the server sends at once, and the pause after them.
const PIECE: usize = 1 << 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Serves one file slowly over HTTP, and returns the address. The threads end with the process.
fn slow_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || serve(&connection));
        }
    });
    address
}

/// Answers the requests of a connection until the client closes it.
fn serve(connection: &TcpStream) -> Option<()> {
    let file = LINE.repeat(LINES);
    let mut lines = BufReader::new(connection).lines();
    loop {
        let request = lines.next()?.ok()?;
        let mut range = None;
        for header in lines.by_ref() {
            let header = header.ok()?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(bytes) = header.strip_prefix("range: bytes=") {
                let (first, last) = bytes.split_once('-')?;
                let last = last.parse().unwrap_or(file.len() - 1).min(file.len() - 1);
                range = Some((first.parse::<usize>().ok()?, last));
            }
        }
        let mut to = connection;
        let etag = "etag: \"1\"\r\naccept-ranges: bytes\r\nlast-modified: Mon, 02 Nov 2026 10:00:00 GMT";
        let (first, last) = range.unwrap_or((0, file.len() - 1));
        let status = match range {
            Some(_) => format!(
                "206 Partial Content\r\ncontent-range: bytes {first}-{last}/{}",
                file.len()
            ),
            None => "200 OK".to_owned(),
        };
        let length = last - first + 1;
        write!(
            to,
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{etag}\r\n\r\n"
        )
        .ok()?;
        if request.starts_with("GET") {
            for piece in file.as_bytes()[first..=last].chunks(PIECE) {
                to.write_all(piece).ok()?;
                thread::sleep(PAUSE);
            }
        }
    }
}

#[test]
fn the_verdict_names_slow_storage() {
    watched("slow storage", || {
        let (key, text) = fresh_key();
        let admin = free_port();
        let bind = admin.to_string();
        let flags = ["dispatcher", "--bind", "127.0.0.1:0", "--admin", &bind];
        let dispatcher = Process::start(&text, &flags);
        let address = &dispatcher.address;
        let _worker = Process::start(&text, &["worker", "--dispatcher", address]);
        let service = Service::connect(&key, address, ServiceConfig::default()).expect("a connection");
        let url = format!("http://{}/lines.txt", slow_server());
        let dataset = service
            .register(Dataset::files(url).text_lines(), None)
            .expect("a dataset");
        let job = service
            .job(&ReadRequest::new(dataset, Policy::Dynamic))
            .expect("a job");
        let mut reader = service.read(job, 0, &ReaderConfig::default()).expect("a reader");
        let canceller = reader.canceller();
        let reading = thread::spawn(move || while let Some(Ok(_)) = reader.next() {});
        let found = || {
            let answer = get(admin, "/api/v1/status", "");
            let status: Value = serde_json::from_str(body(&answer)).expect("a status");
            let sentence = status["verdict"]["sentence"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            match sentence.contains(" s for its first element, because 1 of 1 workers are busy") {
                true => Ok(()),
                false => Err(sentence),
            }
        };
        eventually("the verdict", &Ok(()), found);
        canceller.cancel();
        reading.join().expect("no panic");
    });
}
