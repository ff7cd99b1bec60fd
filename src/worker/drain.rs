//! The graceful shutdown of a worker: it announces it, waits for its tasks, and gives up at a deadline.
//!
//! This file does not know the tasks: the code that follows the dispatcher says when they are over.

use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use millstream_control::Error;
use millstream_control::agent::Agent;
use tokio::time::Instant;

/// The next step of a worker that drains.
#[derive(Debug)]
pub(super) enum Step {
    /// The dispatcher knows: nothing further comes, and the feeds have ended.
    Announced,
    /// The dispatcher was not told.
    Unheard(Error),
    /// The deadline has passed.
    Late,
}

/// Telling the dispatcher, which takes as long as it takes to answer.
type Announcing = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// A worker's draining, once it has begun.
#[derive(Default)]
pub(super) struct Drain {
    begun: Option<Begun>,
}

struct Begun {
    until: Instant,
    /// Until it has ended.
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

    /// Returns whether the dispatcher knows.
    pub(super) fn is_announced(&self) -> bool {
        let begun = self.begun.as_ref();
        begun.is_some_and(|begun| begun.announcing.is_none())
    }

    /// Returns the next step; waits for ever before draining has begun. Cancel-safe.
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
