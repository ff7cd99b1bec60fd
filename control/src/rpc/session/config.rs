//! The timeouts of a process that connects to the dispatcher, and the process's own host.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::whereabouts::Whereabouts;

/// A function that is called with a message while the dispatcher is unreachable.
type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// The timeouts of a process that connects to the dispatcher. Start from the default and change what is
/// needed.
#[derive(Clone)]
pub struct SessionConfig {
    /// The time for which a new process waits for the dispatcher. Default 60 s, because all processes of a
    /// cluster may start at the same time.
    pub connect_deadline: Duration,
    /// The time after which a second attempt to connect begins beside the first. Default 3 s. The first
    /// attempt continues for five times this time: on a slow host, handshakes that are restarted too early
    /// would never finish.
    pub attempt_deadline: Duration,
    /// The first pause between two attempts. The pause doubles with each attempt, up to `backoff_max`.
    /// Default 50 ms.
    pub backoff_min: Duration,
    /// The longest pause between two attempts. Default 2 s.
    pub backoff_max: Duration,
    /// The deadline of a request, including reconnections. Default 120 s, because an iteration may have to
    /// list millions of files.
    pub request_deadline: Duration,
    /// The time after which this process gives up an unreachable dispatcher. Default 10 min, within which a
    /// dispatcher can be moved to another machine. [`Duration::MAX`] waits for the life of the process.
    pub give_up: Duration,
    /// The function that is called while the dispatcher is unreachable: after a failed attempt, then about
    /// every `notice_interval`. `None` logs a warning instead.
    pub on_waiting: Option<Notice>,
    /// The interval between two calls of `on_waiting`. Default 30 s.
    pub notice_interval: Duration,
    /// The host and process, for readers that choose among workers. Default: unknown.
    pub whereabouts: Whereabouts,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            connect_deadline: Duration::from_secs(60),
            attempt_deadline: Duration::from_secs(3),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            request_deadline: Duration::from_secs(120),
            give_up: Duration::from_secs(600),
            on_waiting: None,
            notice_interval: Duration::from_secs(30),
            whereabouts: Whereabouts::default(),
        }
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConfig")
            .field("connect_deadline", &self.connect_deadline)
            .field("request_deadline", &self.request_deadline)
            .finish_non_exhaustive()
    }
}
