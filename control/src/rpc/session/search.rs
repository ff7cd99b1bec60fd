//! The search for the leader among several dispatchers (C17.5).
//!
//! Each known address has a task that asks it until it leads. A dispatcher that does not lead names the
//! leader, and keeps a process that knows this leader waiting until another one leads. The search therefore
//! needs few handshakes, and notices a new leader at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_link::HostPort;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempt::{Ended, Found, connect, greet, named_leader, note_close, shut_down};
use super::state::SessionShared;
use crate::error::Error;

/// The delay of each further address at the start of a search. The first address usually leads.
const STAGGER: Duration = Duration::from_millis(150);
/// The longest pause between two questions to an address that does not answer.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// The shortest pause between two questions to one address.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The duration of one question, as a multiple of the attempt deadline.
const QUESTION_DEADLINES: u32 = 2;
/// Maximum number of addresses, including those that dispatchers have named.
const ADDRESSES_MAX: usize = 32;

/// A search for the leader. Dropping the value ends it, once the handshakes in progress are complete: a
/// dispatcher would log a handshake that is cut off.
#[derive(Debug)]
pub(super) struct Search {
    done: watch::Sender<bool>,
    askers: JoinSet<Result<Found, Ended>>,
    /// The addresses that are asked, each with its latest answer.
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    /// The error of the first address that refused this process.
    refusal: Option<Error>,
    named: mpsc::Receiver<HostPort>,
    names: mpsc::Sender<HostPort>,
}

impl Search {
    /// Starts with the latest leader, and then with the addresses of the settings.
    pub(super) fn start(shared: &Arc<SessionShared>) -> Search {
        let (names, named) = mpsc::channel(ADDRESSES_MAX);
        let mut search = Search {
            done: watch::Sender::new(false),
            askers: JoinSet::new(),
            answers: Arc::default(),
            refusal: None,
            named,
            names,
        };
        let latest = shared.leader.lock().clone();
        let mut delay = Duration::ZERO;
        for address in latest.iter().chain(shared.address.iter()) {
            if search.ask(shared, address.clone(), delay) {
                delay += STAGGER;
            }
        }
        search
    }

    /// Begins to ask an address, unless it is asked already.
    fn ask(&mut self, shared: &Arc<SessionShared>, address: HostPort, delay: Duration) -> bool {
        let mut answers = self.answers.lock();
        let name = address.to_string();
        if answers.contains_key(&name) || answers.len() >= ADDRESSES_MAX {
            return false;
        }
        answers.insert(name, Answer::Awaited);
        let asker = Asker {
            shared: Arc::clone(shared),
            address,
            answers: Arc::clone(&self.answers),
            names: self.names.clone(),
            done: self.done.subscribe(),
        };
        self.askers.spawn(asker.run(delay));
        true
    }

    /// Waits until a dispatcher leads, or until the attempt deadline. Further calls continue the search.
    pub(super) async fn next(&mut self, shared: &Arc<SessionShared>) -> Result<Found, Ended> {
        let deadline = Instant::now() + shared.config.attempt_deadline;
        loop {
            tokio::select! {
                ended = self.askers.join_next() => match ended {
                    Some(Ok(Ok(found))) => return Ok(found),
                    Some(Ok(Err(ended))) => {
                        // Another dispatcher may accept this process, unless the service has ended.
                        if self.askers.is_empty() || shut_down(shared).is_some() {
                            return Err(ended);
                        }
                        if let Ended::GiveUp(error) = ended {
                            self.refusal.get_or_insert(error);
                        }
                    }
                    Some(Err(error)) => {
                        return Err(Ended::Retry(format!("an attempt to connect panicked: {error}")));
                    }
                    None => return Err(self.failure()),
                },
                Some(address) = self.named.recv() => {
                    self.ask(shared, address, Duration::ZERO);
                }
                () = tokio::time::sleep_until(deadline) => return Err(self.failure()),
            }
        }
    }

    /// Returns the end of this attempt. A refusal ends the search if every other address refuses as well or
    /// does not answer.
    fn failure(&self) -> Ended {
        let answers = self.answers.lock();
        let is_open = |answer: &Answer| matches!(answer, Answer::Awaited | Answer::Standby(_));
        match &self.refusal {
            Some(error) if !answers.values().any(is_open) => Ended::GiveUp(error.clone()),
            Some(_) | None => {
                let texts = answers.iter();
                let texts: Vec<String> = texts
                    .map(|(address, answer)| format!("{address}: {}", answer.text()))
                    .collect();
                Ended::Retry(texts.join("; "))
            }
        }
    }
}

/// The latest answer of an address.
#[derive(Debug)]
enum Answer {
    /// No question to the address has ended yet.
    Awaited,
    /// The address does not answer, for this reason.
    Silent(String),
    /// The dispatcher accepts this process and does not lead. The text says which one leads.
    Standby(String),
    /// The dispatcher refuses this process, for this reason.
    Refused(String),
}

impl Answer {
    fn text(&self) -> &str {
        match self {
            Answer::Awaited => "no answer yet",
            Answer::Silent(reason) | Answer::Standby(reason) | Answer::Refused(reason) => reason,
        }
    }
}

/// The task that asks one address.
struct Asker {
    shared: Arc<SessionShared>,
    address: HostPort,
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    names: mpsc::Sender<HostPort>,
    done: watch::Receiver<bool>,
}

impl Asker {
    /// Asks until the address leads, or until no further attempt can succeed.
    async fn run(mut self, delay: Duration) -> Result<Found, Ended> {
        if self.sleep(delay).await {
            return Err(superfluous());
        }
        let mut known_leader = None;
        let mut pause = PAUSE_MIN;
        loop {
            let answer = match self.ask_once(known_leader.clone()).await {
                Ok(found) => return Ok(found),
                Err(NotFound::Ended(Ended::GiveUp(error))) => {
                    self.note(Answer::Refused(error.to_string()));
                    return Err(Ended::GiveUp(error));
                }
                Err(NotFound::Ended(Ended::Retry(reason))) => {
                    pause = (pause * 2).min(PAUSE_MAX);
                    Answer::Silent(reason)
                }
                Err(NotFound::OtherLeads(leader)) => {
                    pause = PAUSE_MIN;
                    match leader.parse::<HostPort>() {
                        Ok(address) => {
                            // A full queue holds enough addresses.
                            self.names.try_send(address).ok();
                            let reason = format!("not the leader, which is {leader}");
                            known_leader = Some(leader);
                            Answer::Standby(reason)
                        }
                        Err(_) => Answer::Standby("not the leader, and no dispatcher leads".to_owned()),
                    }
                }
            };
            self.note(answer);
            if self.sleep(pause).await {
                return Err(superfluous());
            }
        }
    }

    fn note(&self, answer: Answer) {
        self.answers.lock().insert(self.address.to_string(), answer);
    }

    /// Waits for a time, or until the search is over. Returns whether it is over.
    async fn sleep(&mut self, time: Duration) -> bool {
        let over = self.done.wait_for(|done| *done);
        // An error means that the search was dropped.
        tokio::time::timeout(time, over).await.is_ok()
    }

    async fn ask_once(&mut self, known_leader: Option<String>) -> Result<Found, NotFound> {
        let shared = Arc::clone(&self.shared);
        let shared = &shared;
        let deadline = shared.config.attempt_deadline * QUESTION_DEADLINES;
        let connection = connect(shared, &self.address, deadline)
            .await
            .map_err(NotFound::Ended)?;
        let greeting = tokio::time::timeout(deadline, greet(shared, &connection, known_leader));
        let greeting = tokio::select! {
            greeting = greeting => greeting,
            _ = self.done.wait_for(|done| *done) => {
                connection.close(0_u32.into(), b"another dispatcher leads");
                return Err(NotFound::Ended(superfluous()));
            }
        };
        match greeting {
            Ok(Ok((welcome, streams))) => {
                *shared.leader.lock() = Some(self.address.clone());
                Ok((connection, welcome, streams))
            }
            Ok(Err(error)) => {
                if let Some(leader) = named_leader(&connection) {
                    return Err(NotFound::OtherLeads(leader));
                }
                note_close(shared, &connection);
                let retry = || Ended::Retry(error.to_string());
                Err(NotFound::Ended(
                    shut_down(shared).map_or_else(retry, Ended::GiveUp),
                ))
            }
            Err(_) => Err(NotFound::Ended(Ended::Retry(
                "the dispatcher did not answer the hello in time".to_owned(),
            ))),
        }
    }
}

/// Returns the result of an asker whose search has ended. No caller reads it.
fn superfluous() -> Ended {
    Ended::GiveUp(Error::aborted("another dispatcher leads"))
}

impl Drop for Search {
    fn drop(&mut self) {
        self.done.send_replace(true);
        self.askers.detach_all();
    }
}

/// The reason for which an address did not welcome this process.
enum NotFound {
    /// The dispatcher does not lead. The text is the address of the leader, or empty.
    OtherLeads(String),
    Ended(Ended),
}
