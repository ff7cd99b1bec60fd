//! A reader in a separate process that checks every element twice: on arrival, and much later when the reader
//! releases the element. A test can kill or stop the process at any instant, and ask for its progress.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::Policy;
use millstream::element::Element;
use millstream::link::KeySource;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use super::cluster::numbers;
use super::process::signal;
use super::watchdog::WATCHDOG;

/// The environment variable with the orders for the process: the key, the dispatcher's address, and whether
/// elements arrive in order.
const TOLD: &str = "MILLSTREAM_TEST_WITNESS";

/// The prefix of each line of progress.
const SAYS: &str = "witness says ";

/// The number of items in an element. The first item is a multiple of this number, and each further item is
/// the previous item plus one. Mixed or overwritten elements thus violate the pattern.
const BATCH: i64 = 1024;

/// The number of elements that the witness keeps. The number exceeds the outstanding elements, so that an
/// element's slot is not reused while the witness keeps it.
const KEPT: usize = 48;

/// The number of elements that the witness keeps until its end, counted from the first element.
const KEEPSAKES: usize = 16;

/// A running witness process. Dropping the value kills the process.
#[derive(Debug)]
pub(crate) struct Witness {
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// The progress of a witness.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) elements: u64,
    /// A description of the witness's link to each worker.
    pub(crate) links: String,
}

impl Witness {
    /// Starts a process that reads all elements, and returns before the first element. `test` is the name of
    /// the test that calls [`testify`]. With `in_order`, the witness reads from one worker, and checks that
    /// no element is missing or repeated.
    #[expect(
        clippy::print_stderr,
        reason = "the witness's complaints are a part of the test's output"
    )]
    pub(crate) fn start(test: &str, key: &str, dispatcher: &str, in_order: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "--ignored", "--nocapture", "--test-threads=1", test])
            .env(TOLD, format!("{key}|{dispatcher}|{in_order}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this binary starts");
        let stderr = child.stderr.take().expect("piped");
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                match line.strip_prefix(SAYS) {
                    // Sending fails only if the test has failed.
                    Some(said) => drop(tell.send(said.to_owned())),
                    None => eprintln!("a witness: {line}"),
                }
            }
        });
        let asks = child.stdin.take();
        Self { child, asks, answers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the witness has an element.
    pub(crate) fn is_reading(&self) {
        self.hears();
    }

    /// Asks the witness for its progress. The witness answers after its next element.
    pub(crate) fn account(&mut self) -> Account {
        let asks = self.asks.as_mut().expect("it was not told to end");
        asks.write_all(b"?\n").expect("it lives");
        self.hears()
    }

    fn hears(&self) -> Account {
        let said = self.answers.recv_timeout(WATCHDOG).expect("the reader proceeds");
        let (elements, links) = said.split_once(' ').expect("two things");
        Account {
            elements: elements.parse().expect("a number"),
            links: links.to_owned(),
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Kills the witness with SIGKILL. Fails if the witness has found a fault before.
    pub(crate) fn kill(mut self) {
        let ended = self.child.try_wait().expect("it is a child");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is a child");
    }

    /// Ends the witness. Fails if the witness has found a fault.
    pub(crate) fn ends_well(mut self) {
        self.asks = None;
        let status = self.child.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the witness process, which reads until its standard input ends. Returns at once in a process without
/// orders.
#[expect(clippy::print_stderr, reason = "the witness answers through a pipe")]
pub(crate) fn testify() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Vec<&str> = told.split('|').collect();
    let [key, dispatcher, in_order] = told[..] else {
        panic!("three things: {told:?}")
    };
    let key = KeySource::from_setting(key).load().expect("a key");
    let service = Service::connect(&key, dispatcher, ServiceConfig::default()).expect("a trainer's side");
    let dataset = Dataset::range(0, 1 << 50, 1).batch(BATCH as u64, false);
    let dataset = service.register(dataset, None).expect("registered");
    let job = service
        .job(&ReadRequest::new(dataset, Policy::Off))
        .expect("a job");
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(KEPT as u64 / 2),
        ..ReaderConfig::default()
    };
    let mut reader = service.read(job, 0, &config).expect("a reader");
    let asked = asked();
    let (mut kept, mut keepsakes, mut count) = (VecDeque::new(), Vec::new(), 0_u64);
    loop {
        let element = reader
            .next_element()
            .expect("the reader proceeds")
            .expect("it has no end");
        check(&element);
        if in_order == "true" {
            assert_eq!(
                numbers(&element)[0],
                BATCH * count as i64,
                "out of order, missing or repeated"
            );
        }
        // A kept element keeps its worker's memory mapped after the worker's death. Only a witness of a
        // single worker keeps elements until its end.
        if in_order == "true" && keepsakes.len() < KEEPSAKES {
            keepsakes.push(element);
        } else {
            kept.push_back(element);
        }
        if kept.len() > KEPT {
            check(&kept.pop_front().expect("there are some"));
        }
        count += 1;
        let is_asked = asked.try_recv();
        if count == 1 || is_asked.is_ok() {
            let links = reader.links().into_values();
            let links =
                links.map(|link| format!("{} ({})", link.transport, link.not_better.unwrap_or_default()));
            eprintln!("{SAYS}{count} {}", links.collect::<Vec<_>>().join(", "));
        }
        if is_asked == Err(TryRecvError::Disconnected) {
            break;
        }
    }
    kept.iter().chain(&keepsakes).for_each(check);
}

/// Returns a channel that receives each question. The channel disconnects at the end of standard input.
fn asked() -> Receiver<()> {
    let (ask, asked) = channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            if ask.send(()).is_err() {
                return;
            }
        }
    });
    asked
}

fn check(element: &Element) {
    let numbers = numbers(element);
    let is_intact = numbers.len() as i64 == BATCH
        && numbers[0] % BATCH == 0
        && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(is_intact, "a corrupt element: {numbers:?}");
}
