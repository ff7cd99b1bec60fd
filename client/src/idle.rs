//! A reader that has no task to read: what the user hears of it, and when that ends reading.
//!
//! Refuses to know why the dispatcher has none for it.

use std::time::Duration;

use tokio::time::Instant;

use crate::entry::Entry;
use crate::error::ReadError;
use crate::intake::Intake;
use crate::notice::Notice;
use crate::reach::Trouble;
use crate::state::State;

/// How long a reader has no worker before the user hears of it.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// How long the dispatcher may leave a reader without a task between two of them: others may have the rest of the epoch.
const TELL_LULL_AFTER: Duration = Duration::from_secs(30);

impl State {
    /// Whether the consumer waits and there is no task that anything could come of.
    fn is_idle(&self) -> bool {
        let is_asked = self.is_open && !self.is_iteration_over && !self.has_something();
        is_asked && !self.tasks.values().any(Entry::is_wanted) && !self.outages.is_open()
    }
}

impl Intake {
    /// Looks whether there is anything to read. A reader without a worker for `give_up` fails, naming the dispatcher.
    pub(crate) fn look_for_tasks(&self, dispatcher: &str, give_up: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if !state.is_idle() {
            state.idle = None;
            return;
        }
        let has_begun = !state.tasks.is_empty();
        let State { idle, outages, .. } = &mut *state;
        let idle = idle.get_or_insert_with(|| {
            let tell_after = if has_begun { TELL_LULL_AFTER } else { TELL_AFTER };
            Trouble::begin(now, outages).told_after(tell_after)
        });
        let lasted = idle.lasted(now, outages);
        let is_to_tell = idle.is_to_tell(lasted);
        let (dispatcher, since_s) = (dispatcher.to_owned(), lasted.as_secs());
        if lasted > give_up && !has_begun {
            let error = ReadError::NoWorkers {
                dispatcher: dispatcher.clone(),
                after_s: since_s,
            };
            state.failure.get_or_insert(error);
            self.wake(&state);
        }
        drop(state);
        if is_to_tell {
            self.notices().tell(&if has_begun {
                Notice::NoTasks { dispatcher, since_s }
            } else {
                Notice::NoWorkers { dispatcher, since_s }
            });
        }
    }
}
