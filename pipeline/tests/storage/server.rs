//! An HTTP server that answers each request according to a script, correctly or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request that the server has received.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path with its query.
    pub(super) target: String,
    headers: Vec<(String, String)>,
}

/// The server's reply to a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// A complete reply with the given status, headers and body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A reply that announces a length, and breaks off after the given bytes.
    Short(u16, Vec<(&'static str, String)>, usize, Vec<u8>),
    /// A reply that announces a length, sends the given bytes, and then sends nothing for as long as
    /// the peer waits.
    Silence(u16, Vec<(&'static str, String)>, usize, Vec<u8>),
    /// The server closes the connection without a reply.
    Close,
}

type Script = dyn Fn(&Request, usize) -> Reply + Send + Sync;

pub(super) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the requested range of bytes of an object of `size` bytes.
    pub(super) fn range(&self, size: usize) -> Option<std::ops::Range<usize>> {
        let (begin, end) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let end: usize = end.parse().ok()?;
        Some(begin.parse().ok()?..(end + 1).min(size))
    }
}

impl Server {
    /// Starts a server that answers with `script`, which receives the request and the number of earlier
    /// requests.
    pub(super) fn start(script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, ended) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let (known, over) = (Arc::clone(&requests), Arc::clone(&ended));
        let script: Arc<Script> = Arc::new(script);
        let thread = std::thread::spawn(move || {
            let mut connections = Vec::new();
            for socket in listener.incoming() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let (socket, script, known, over) = (
                    socket.unwrap(),
                    Arc::clone(&script),
                    Arc::clone(&known),
                    Arc::clone(&over),
                );
                connections.push(std::thread::spawn(move || serve(socket, &*script, &known, &over)));
            }
            connections
                .into_iter()
                .for_each(|connection| connection.join().unwrap());
        });
        Server {
            address,
            requests,
            ended,
            thread: Some(thread),
        }
    }

    /// Starts a correct server that returns `content` for every path.
    pub(super) fn right(content: Vec<u8>, mark: &'static str) -> Server {
        Server::start(move |request, _| answer(request, &content, mark))
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Returns all requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // The connection wakes the server's thread, which waits in `accept`.
        let _ = TcpStream::connect(self.address);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Answers like a correct server of `content` with the entity tag `mark`.
pub(super) fn answer(request: &Request, content: &[u8], mark: &str) -> Reply {
    let headers = || vec![("etag", mark.to_owned()), ("accept-ranges", "bytes".to_owned())];
    if request.header("if-none-match") == Some(mark) {
        return Reply::Answer(304, headers(), Vec::new());
    }
    if request.header("if-match").is_some_and(|wanted| wanted != mark) {
        return Reply::Answer(412, headers(), Vec::new());
    }
    match request.range(content.len()) {
        Some(range) if range.start >= content.len() => Reply::Answer(
            416,
            vec![("content-range", format!("bytes */{}", content.len()))],
            Vec::new(),
        ),
        Some(range) => {
            let mut headers = headers();
            headers.push((
                "content-range",
                format!("bytes {}-{}/{}", range.start, range.end - 1, content.len()),
            ));
            Reply::Answer(206, headers, content[range].to_vec())
        }
        None => Reply::Answer(200, headers(), content.to_vec()),
    }
}

fn serve(socket: TcpStream, script: &Script, known: &Mutex<Vec<Request>>, over: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut reader = BufReader::new(socket);
    while let Some(request) = next(&mut reader, over) {
        let before = {
            let mut known = known.lock().unwrap();
            known.push(request.clone());
            known.len() - 1
        };
        let socket = reader.get_mut();
        // A peer may have closed its connection after it received enough bytes.
        let goes_on = match script(&request, before) {
            Reply::Answer(status, headers, body) => {
                write(socket, &request, status, &headers, body.len(), &body).is_ok()
            }
            Reply::Short(status, headers, length, body) => {
                let _ = write(socket, &request, status, &headers, length, &body);
                false
            }
            Reply::Silence(status, headers, length, body) => {
                let _ = write(socket, &request, status, &headers, length, &body);
                wait_for_peer(&mut reader, over);
                false
            }
            Reply::Close => false,
        };
        if !goes_on {
            return;
        }
    }
}

fn write(
    socket: &mut TcpStream,
    request: &Request,
    status: u16,
    headers: &[(&str, String)],
    length: usize,
    body: &[u8],
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    socket.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        socket.write_all(body)?;
    }
    socket.flush()
}

/// Reads the next request. Returns `None` when the peer has closed the connection, or when the server
/// ends.
fn next(reader: &mut BufReader<TcpStream>, over: &AtomicBool) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let line = line(reader, over)?;
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    Some(Request {
        method,
        target,
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    })
}

fn line(reader: &mut BufReader<TcpStream>, over: &AtomicBool) -> Option<String> {
    let mut line = Vec::new();
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\r\n") => {
                line.truncate(line.len() - 2);
                return String::from_utf8(line).ok();
            }
            Ok(_) => return None,
            Err(error) if is_early(&error) && !over.load(Ordering::Acquire) => {}
            Err(_) => return None,
        }
    }
}

/// Waits until the peer has closed the connection.
fn wait_for_peer(reader: &mut BufReader<TcpStream>, over: &AtomicBool) {
    loop {
        match reader.read(&mut [0; 64]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_early(&error) && !over.load(Ordering::Acquire) => {}
            Err(_) => return,
        }
    }
}

fn is_early(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}
