//! A view of a session that reports whether the dispatcher is reachable.

use tokio::sync::watch;

use super::state::LinkState;

/// A view of a session that reports whether its dispatcher is reachable.
#[derive(Debug)]
pub struct Contact {
    states: watch::Receiver<LinkState>,
    is_up: bool,
}

impl Contact {
    /// Returns a view that starts with a reachable dispatcher.
    pub(super) fn new(states: watch::Receiver<LinkState>) -> Contact {
        Contact { states, is_up: true }
    }

    /// Waits until the dispatcher becomes reachable or unreachable, and returns whether it is reachable
    /// now. Never returns once the session has ended. Cancel-safe.
    pub async fn changed(&mut self) -> bool {
        let was_up = self.is_up;
        let states = self.states.wait_for(|state| is_up(state) != was_up).await;
        let is_up = states.map(|state| is_up(&state)).ok();
        match is_up {
            Some(is_up) => {
                self.is_up = is_up;
                is_up
            }
            None => std::future::pending().await,
        }
    }
}

fn is_up(state: &LinkState) -> bool {
    match state {
        LinkState::Up(..) => true,
        LinkState::Waiting(_) | LinkState::Failed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_told_once_and_reasons_are_none() {
        let waiting = |reason: &str| LinkState::Waiting(Some(reason.to_owned()));
        let (states, _) = watch::channel(waiting("no answer"));
        let mut contact = Contact::new(states.subscribe());
        assert!(!contact.changed().await);
        states.send_replace(waiting("still none"));
        drop(states);
        tokio::select! {
            biased;
            _ = contact.changed() => panic!("nothing has changed"),
            () = tokio::task::yield_now() => {}
        }
    }
}
