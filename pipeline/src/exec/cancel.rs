//! A flag that stops a pipeline, and that blocked operations can wait on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::error::ExecError;

/// A flag that makes every operation of a tree stop. Clones share the flag.
#[derive(Debug, Clone)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    /// The sender of a channel that never carries a message. `cancel` drops the sender, which disconnects
    /// `closed`.
    open: Mutex<Option<Sender<()>>>,
    closed: Receiver<()>,
    hooks: Mutex<Hooks>,
}

/// The actions that run when the flag is raised.
#[derive(Default)]
struct Hooks {
    next: u64,
    actions: BTreeMap<u64, Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("waiting", &self.actions.len())
            .finish_non_exhaustive()
    }
}

/// A registered action that runs when the flag is raised. Dropping the hook removes the action.
#[derive(Debug)]
#[must_use = "a hook that is dropped does not run its action"]
pub struct CancelHook {
    shared: Arc<Shared>,
    id: u64,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

impl Cancel {
    /// Returns a flag that is not raised.
    pub fn new() -> Cancel {
        let (open, closed) = bounded(0);
        let shared = Shared {
            cancelled: AtomicBool::new(false),
            open: Mutex::new(Some(open)),
            closed,
            hooks: Mutex::default(),
        };
        Cancel {
            shared: Arc::new(shared),
        }
    }

    /// Raises the flag. Operations that wait wake at once. A user's function that is running is not
    /// interrupted.
    pub fn cancel(&self) {
        // Release pairs with the acquire in `is_cancelled`.
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.open.lock().take();
        let actions = std::mem::take(&mut self.shared.hooks.lock().actions);
        for action in actions.into_values() {
            action();
        }
    }

    /// Registers `action` to run when the flag is raised, on the thread that raises the flag, so `action`
    /// must not block. Runs `action` at once if the flag is already raised. Dropping the hook removes the
    /// action. Serves operations that block outside of this crate and can be woken.
    pub fn on_cancel(&self, action: impl FnOnce() + Send + 'static) -> CancelHook {
        let shared = Arc::clone(&self.shared);
        let mut hooks = shared.hooks.lock();
        let id = hooks.next;
        hooks.next += 1;
        // The thread that raises the flag takes the actions afterwards, so either that thread or this one
        // runs `action`.
        if self.is_cancelled() {
            drop(hooks);
            action();
        } else {
            hooks.actions.insert(id, Box::new(action));
            drop(hooks);
        }
        CancelHook { shared, id }
    }

    /// Returns whether the flag is raised.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Returns an error if the flag is raised.
    pub(crate) fn check(&self, op: &str) -> Result<(), ExecError> {
        if self.is_cancelled() {
            Err(ExecError::cancelled(op))
        } else {
            Ok(())
        }
    }

    /// Returns a channel that disconnects when the flag is raised. Operations wait on the channel together
    /// with their other channels.
    pub(crate) fn signal(&self) -> &Receiver<()> {
        &self.shared.closed
    }

    /// Blocks for `duration`, or until the flag is raised. Returns an error if the flag is raised.
    pub(crate) fn pause(&self, op: &str, duration: Duration) -> Result<(), ExecError> {
        // No message is ever sent: the call returns when the time is up or the channel is disconnected.
        let _ = self.shared.closed.recv_timeout(duration);
        self.check(op)
    }
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        // The hook's action is dropped after the lock is released.
        let action = self.shared.hooks.lock().actions.remove(&self.id);
        drop(action);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_hook_runs_at_most_once() {
        let cancel = Cancel::new();
        let count = Arc::new(AtomicU32::new(0));
        let hook = |cancel: &Cancel| {
            let count = count.clone();
            cancel.on_cancel(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        };
        drop(hook(&cancel));
        let _held = hook(&cancel);
        assert_eq!(count.load(Ordering::Relaxed), 0);
        cancel.cancel();
        cancel.cancel();
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let _late = hook(&cancel);
        assert_eq!(
            count.load(Ordering::Relaxed),
            2,
            "the action runs at once if the flag is already raised"
        );
    }
}
