//! A lane: one thread with its own single-threaded runtime, for sockets.
//!
//! Everything that runs on a lane ends with it, and the lane's owner joins it. Long computations do not
//! belong here: they delay every acknowledgement.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

/// Starts that may wait for the lane to look: it looks whenever it is idle for an instant.
const STARTS_MAX: usize = 1024;

/// The time for which dropping a lane waits for its thread before it complains and leaves the thread.
const DROP_DEADLINE: Duration = Duration::from_secs(5);

type Start = Box<dyn FnOnce() + Send>;

/// A thread that runs futures. Dropping it stops and joins the thread (see [`Lane::shutdown`]).
#[derive(Debug)]
pub struct Lane {
    name: String,
    handle: Handle,
    /// Dropping it stops the lane.
    starts: Option<mpsc::Sender<Start>>,
    thread: Option<LaneThread>,
}

#[derive(Debug)]
struct LaneThread {
    id: ThreadId,
    join: JoinHandle<()>,
    /// Disconnected when the thread has dropped everything that ran on it.
    /// Locked only so that a lane may be shared: one thread at most waits here.
    ended: Mutex<std_mpsc::Receiver<()>>,
}

impl Lane {
    /// Starts a lane whose thread has this name.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(name: &str) -> Result<Lane, LaneError> {
        let failed = |source| LaneError::Start {
            lane: name.to_owned(),
            source,
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (starts, mut started) = mpsc::channel::<Start>(STARTS_MAX);
        let (alive, ended) = std_mpsc::channel();
        let body = move || {
            let _alive: std_mpsc::Sender<()> = alive;
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, async move {
                while let Some(start) = started.recv().await {
                    start();
                }
            });
            // Every task is dropped here, on its own thread, before the lane counts as ended.
            drop(tasks);
            // Without waiting for its blocking threads: one may be in the system's resolver, which answers
            // when it likes.
            runtime.shutdown_background();
        };
        let join = thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(failed)?;
        let thread = LaneThread {
            id: join.thread().id(),
            join,
            ended: Mutex::new(ended),
        };
        Ok(Lane {
            name: name.to_owned(),
            handle,
            starts: Some(starts),
            thread: Some(thread),
        })
    }

    /// The lane's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lane's runtime, for what wants a handle. What is spawned there ends with the lane as well.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the lane. Dropping the [`LaneTask`] leaves it running; the lane's end drops it.
    pub fn spawn<F>(&self, future: F) -> LaneTask<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_local_with(move || future)
    }

    /// Calls `make` on the lane and runs there the future it returns, which need not be `Send`.
    ///
    /// A lane that has stopped, or that has not looked up for 1024 starts, drops it: the task then says
    /// [`LaneError::Stopped`].
    pub fn spawn_local_with<M, F>(&self, make: M) -> LaneTask<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let start: Start = Box::new(move || {
            let future = make();
            tokio::task::spawn_local(async move {
                // Fails when nobody wants the result.
                done.send(future.await).ok();
            });
        });
        if let Some(starts) = &self.starts
            && starts.try_send(start).is_err()
        {
            tracing::error!(lane = self.name, "a lane is stuck and takes no more tasks");
        }
        LaneTask {
            lane: self.name.clone(),
            result,
        }
    }

    /// Stops the lane: drops everything that runs on it and joins its thread. Blocks up to the deadline.
    ///
    /// Tasks are dropped where they wait; a caller that wants them to end in good order tells them before.
    ///
    /// # Errors
    /// A task has kept the thread busy past the deadline, in which case the thread is left to itself; or it
    /// panicked outside of any task.
    pub fn shutdown(mut self, deadline: Duration) -> Result<(), LaneError> {
        self.stop(deadline)
    }

    fn stop(&mut self, deadline: Duration) -> Result<(), LaneError> {
        self.starts = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        if thread.id == thread::current().id() {
            // Dropped by one of its own tasks: it cannot wait for itself, and ends when that task next waits.
            return Ok(());
        }
        match thread.ended.lock().recv_timeout(deadline) {
            Ok(()) | Err(std_mpsc::RecvTimeoutError::Disconnected) => {}
            Err(std_mpsc::RecvTimeoutError::Timeout) => {
                return Err(LaneError::Stuck {
                    lane: self.name.clone(),
                    deadline_ms: deadline.as_millis(),
                });
            }
        }
        let panicked = |panic: Box<dyn Any + Send>| LaneError::Panicked {
            lane: self.name.clone(),
            message: panic_message(panic.as_ref()),
        };
        thread.join.join().map_err(panicked)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Err(error) = self.stop(DROP_DEADLINE) {
            tracing::error!(%error, "a lane did not end well");
        }
    }
}

/// The result of a task on a lane. Dropping it leaves the task running.
#[must_use = "a task whose result nobody takes fails unnoticed; drop it on purpose if that is meant"]
pub struct LaneTask<T> {
    lane: String,
    result: oneshot::Receiver<T>,
}

impl<T> LaneTask<T> {
    /// Waits for the result, blocking this thread: not for use within a runtime.
    ///
    /// # Errors
    /// The lane ended first, or the task panicked.
    pub fn wait(self) -> Result<T, LaneError> {
        self.result
            .blocking_recv()
            .map_err(|_| LaneError::Stopped { lane: self.lane })
    }
}

impl<T> Future for LaneTask<T> {
    type Output = Result<T, LaneError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lane = &mut *self;
        Pin::new(&mut lane.result).poll(cx).map(|result| {
            result.map_err(|_| LaneError::Stopped {
                lane: lane.lane.clone(),
            })
        })
    }
}

impl<T> fmt::Debug for LaneTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneTask(on {})", self.lane)
    }
}

/// The errors of lanes.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The system gives no thread or no event queue.
    #[error("cannot start lane `{lane}`: {source}")]
    Start {
        /// The lane.
        lane: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The lane ended, or the task panicked, before there was a result.
    #[error("lane `{lane}` ended, or the task on it panicked, before there was a result")]
    Stopped {
        /// The lane.
        lane: String,
    },
    /// A task keeps the thread busy.
    #[error("lane `{lane}` did not end within {deadline_ms} ms: a task on it computes or blocks")]
    Stuck {
        /// The lane.
        lane: String,
        /// The time that was waited, in milliseconds.
        deadline_ms: u128,
    },
    /// The thread panicked outside of any task.
    #[error("lane `{lane}` panicked: {message}")]
    Panicked {
        /// The lane.
        lane: String,
        /// The message of the panic.
        message: String,
    },
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(60);

    /// Tells when it is dropped.
    struct Witness(Arc<AtomicBool>);

    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_lane_may_be_shared_between_threads() {
        fn is_shared<T: Send + Sync>(_: &T) {}
        is_shared(&Lane::start("lane-test").unwrap());
    }

    #[test]
    fn shutdown_drops_every_task_and_joins_the_thread() {
        let lane = Lane::start("lane-test").unwrap();
        let flags: [Arc<AtomicBool>; 3] = std::array::from_fn(|_| Arc::default());
        let witness = |place: usize| Witness(flags[place].clone());
        let (started, running) = std_mpsc::channel();
        let (a, b, c, told) = (witness(0), witness(1), witness(2), started.clone());
        drop(lane.spawn(async move {
            let _held = a;
            told.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        drop(lane.spawn_local_with(move || async move {
            let _held = Rc::new(b);
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        drop(lane.handle().spawn(async move {
            let _held = c;
            std::future::pending::<()>().await;
        }));
        running.recv_timeout(WATCHDOG).unwrap();
        running.recv_timeout(WATCHDOG).unwrap();
        lane.shutdown(WATCHDOG).unwrap();
        assert!(flags.iter().all(|dropped| dropped.load(Ordering::SeqCst)));
    }

    #[test]
    fn tasks_run_on_the_named_thread() {
        let lane = Lane::start("lane-named").unwrap();
        let name = lane
            .spawn(async { thread::current().name().map(str::to_owned) })
            .wait()
            .unwrap();
        assert_eq!(name.as_deref(), Some("lane-named"));
        let counted = lane.spawn_local_with(|| async {
            let shared = Rc::new(5);
            tokio::task::yield_now().await;
            *shared
        });
        assert_eq!(counted.wait().unwrap(), 5);
    }

    #[test]
    fn blocking_work_does_not_delay_a_lanes_end() {
        let lane = Lane::start("lane-resolving").unwrap();
        let (entered, inside) = std_mpsc::channel();
        let (release, gate) = std_mpsc::channel::<()>();
        drop(lane.handle().spawn_blocking(move || {
            entered.send(()).unwrap();
            gate.recv().ok();
        }));
        inside.recv_timeout(WATCHDOG).unwrap();
        lane.shutdown(WATCHDOG / 4).unwrap();
        drop(release);
    }

    #[test]
    fn a_panic_ends_its_task_alone() {
        let lane = Lane::start("lane-panic").unwrap();
        let failed = lane.spawn(async { panic!("on purpose") }).wait();
        assert!(matches!(failed, Err(LaneError::Stopped { .. })));
        assert_eq!(lane.spawn(async { 1 }).wait().unwrap(), 1);
    }

    #[test]
    fn a_blocked_lane_is_named_in_time() {
        let lane = Lane::start("lane-stuck").unwrap();
        let (release, gate) = std_mpsc::channel::<()>();
        let (entered, inside) = std_mpsc::channel();
        drop(lane.spawn(async move {
            entered.send(()).unwrap();
            gate.recv().ok();
        }));
        inside.recv_timeout(WATCHDOG).unwrap();
        let error = lane.shutdown(Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().contains("lane-stuck"), "{error}");
        drop(release);
    }

    #[test]
    fn a_lane_may_be_dropped_within() {
        let lane = Lane::start("lane-self").unwrap();
        let dropped = Arc::new(AtomicBool::new(false));
        let witness = Witness(dropped.clone());
        let (hand_over, receive) = oneshot::channel::<Lane>();
        let task = lane.spawn(async move {
            drop(receive.await);
            drop(witness);
        });
        hand_over.send(lane).unwrap();
        // Either the task got to its end or the lane's end dropped it; both drop the witness, neither hangs.
        task.wait().ok();
        assert!(dropped.load(Ordering::SeqCst));
    }
}
