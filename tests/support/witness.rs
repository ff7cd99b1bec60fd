//! A reader in a process of its own, which looks at every element twice: when it comes, and when it lets go
//! of it much later. It can be killed or stopped at any instant, and says how far it is when it is asked.

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

/// Orders for the process: the key, the dispatcher's address, and whether elements come in order.
const TOLD: &str = "MILLSTREAM_TEST_WITNESS";

/// Precedes what it says.
const SAYS: &str = "witness says ";

/// Numbers in an element. The first is a multiple of it, and each is one more than the one before it:
/// whatever an element is mixed with or overwritten by shows.
const BATCH: i64 = 1024;

/// Elements it keeps: more than it may have outstanding, so that none leaves the worker's hands before its
/// own.
const KEPT: usize = 48;

/// Elements that it keeps for good, from the first on.
const KEEPSAKES: usize = 16;

/// The reader. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Witness {
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// How far it is.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) elements: u64,
    /// How it is linked with each worker, in words.
    pub(crate) links: String,
}

impl Witness {
    /// Starts a process that reads all there is; returns before it has read anything. `test` is the name of
    /// the test that calls [`testify`]. `in_order`: the elements are those of one worker, of which it misses
    /// none and gets none twice.
    #[expect(
        clippy::print_stderr,
        reason = "what it complains of is part of the test's output"
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
                    // Nobody listens any more when the test has failed.
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

    /// Waits until it has an element.
    pub(crate) fn is_reading(&self) {
        self.hears();
    }

    /// Asks it how far it is. It answers behind its next element.
    pub(crate) fn account(&mut self) -> Account {
        let asks = self.asks.as_mut().expect("it was not told to end");
        asks.write_all(b"?\n").expect("it lives");
        self.hears()
    }

    fn hears(&self) -> Account {
        let said = self.answers.recv_timeout(WATCHDOG).expect("the reading goes on");
        let (elements, links) = said.split_once(' ').expect("two things");
        Account {
            elements: elements.parse().expect("a number"),
            links: links.to_owned(),
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// SIGKILL. It must not have found anything wrong before.
    pub(crate) fn kill(mut self) {
        let ended = self.child.try_wait().expect("it is a child");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is a child");
    }

    /// Ends it. It must have found nothing wrong.
    pub(crate) fn ends_well(mut self) {
        self.asks = None;
        let status = self.child.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process: reads until its standard input ends. Does nothing in a process without orders.
#[expect(clippy::print_stderr, reason = "it answers over a pipe")]
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
            .expect("the reading goes on")
            .expect("it has no end");
        check(&element);
        if in_order == "true" {
            assert_eq!(
                numbers(&element)[0],
                BATCH * count as i64,
                "out of order, missing or repeated"
            );
        }
        // What is kept of a worker's memory stays mapped beyond its death: only who has but one worker keeps
        // it for good.
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

/// Receives for each question; disconnected when there are no more.
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
