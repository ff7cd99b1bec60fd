//! A dispatcher that does not lead: tells processes where the leader is (C17.4).

use std::convert::Infallible;
use std::time::Duration;

use millstream_link::{Accepted, Acceptor};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{CLOSE_PROTOCOL, HELLO_DEADLINE, hear_hello};
use crate::rpc::wire::CLOSE_NOT_LEADER;

/// The time for which a process waits here for news of the leader. Processes that asked again and again
/// instead would make a handshake for each question.
const NEWS_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of processes that are answered at a time. Further processes wait in their handshakes.
const WAITING_MAX: usize = 16_384;

/// Answers every process, until the future is dropped.
pub(super) async fn answer_all(
    acceptor: &mut Acceptor,
    leader: watch::Receiver<Option<String>>,
) -> Infallible {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = acceptor.accept(), if answers.len() < WAITING_MAX => match accepted {
                Some(accepted) => {
                    answers.spawn(answer(accepted, leader.clone()));
                }
                // The endpoint is closed, and the caller is told by other means.
                None => std::future::pending().await,
            },
            Some(_) = answers.join_next() => {}
        }
    }
}

/// Closes a connection with the address of the leader. Waits for a leader that the process does not know.
async fn answer(accepted: Accepted, mut leader: watch::Receiver<Option<String>>) {
    let connection = &accepted.connection;
    // The streams stay open until the close, because their end would not name the leader.
    let (hello, _send, _recv) = match tokio::time::timeout(HELLO_DEADLINE, hear_hello(connection)).await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            connection.close(CLOSE_PROTOCOL, error.to_string().as_bytes());
            return;
        }
        Err(_) => {
            connection.close(CLOSE_PROTOCOL, b"no hello in time");
            return;
        }
    };
    let is_news = |leader: &Option<String>| leader.is_some() && *leader != hello.known_leader;
    tokio::select! {
        // Without news, the process learns that its leader still leads, or that no dispatcher leads.
        _ = tokio::time::timeout(NEWS_WAIT, leader.wait_for(is_news)) => {}
        _ = connection.closed() => return,
    }
    let address = leader.borrow().clone().unwrap_or_default();
    connection.close(CLOSE_NOT_LEADER.into(), address.as_bytes());
}
