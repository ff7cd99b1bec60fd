//! The graceful shutdown of a worker: the worker announces the shutdown, waits for its tasks, and gives up at
//! a deadline.
//!
//! This file does not know the tasks; the code that follows the dispatcher reports their end.

use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use millstream_control::Error;
use millstream_control::agent::Agent;
use tokio::time::Instant;

/// The next event of a worker in graceful shutdown.
#[derive(Debug)]
pub(super) enum Step {
    /// The dispatcher has confirmed the shutdown: no further tasks or splits arrive, and the split feeds have
    /// ended.
    Announced,
    /// The dispatcher did not receive the announcement.
    Unheard(Error),
    /// The deadline of the shutdown has passed.
    Late,
}

/// The future of the announcement, which completes with the dispatcher's answer.
type Announcing = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// The state of a worker's graceful shutdown.
#[derive(Default)]
pub(super) struct Drain {
    begun: Option<Begun>,
}

struct Begun {
    until: Instant,
    /// The pending announcement; `None` once it has completed.
    announcing: Option<Announcing>,
}

impl Drain {
    pub(super) fn begin(&mut self, agent: Rc<Agent>, deadline: Duration) {
        self.begun = Some(Begun {
            until: Instant::now() + deadline,
            announcing: Some(Box::pin(async move { agent.drain().await })),
        });
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Returns whether the dispatcher has confirmed the shutdown.
    pub(super) fn is_announced(&self) -> bool {
        let begun = self.begun.as_ref();
        begun.is_some_and(|begun| begun.announcing.is_none())
    }

    /// Returns the next event. Before the shutdown has begun, waits for ever. Cancel-safe.
    pub(super) async fn step(&mut self) -> Step {
        let Some(begun) = &mut self.begun else {
            return pending().await;
        };
        let late = tokio::time::sleep_until(begun.until);
        let Some(announcing) = &mut begun.announcing else {
            late.await;
            return Step::Late;
        };
        let announced = tokio::select! {
            announced = announcing => announced,
            () = late => return Step::Late,
        };
        begun.announcing = None;
        match announced {
            Ok(()) => Step::Announced,
            Err(error) => Step::Unheard(error),
        }
    }
}
