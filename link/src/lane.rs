//! A lane is a thread with its own single-threaded runtime, for sockets.
//!
//! Every task on a lane ends with the lane, and the lane's owner joins the thread. Long computations must not
//! run on a lane, because they would delay every acknowledgement.

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

/// Maximum number of starts that wait for the lane. The lane takes starts whenever it is idle for a moment.
const STARTS_MAX: usize = 1024;

/// The time for which dropping a lane waits for its thread. If the time has passed, the drop logs an error
/// and leaves the thread running.
const DROP_DEADLINE: Duration = Duration::from_secs(5);

type Start = Box<dyn FnOnce() + Send>;

/// A thread that runs futures. Dropping the lane stops and joins the thread (see [`Lane::shutdown`]).
#[derive(Debug)]
pub struct Lane {
    name: String,
    handle: Handle,
    /// The channel of starts. Dropping the sender stops the lane.
    starts: Option<mpsc::Sender<Start>>,
    thread: Option<LaneThread>,
}

#[derive(Debug)]
struct LaneThread {
    id: ThreadId,
    join: JoinHandle<()>,
    /// The receiver that is disconnected when the thread has dropped all its tasks. The lock only makes the
    /// lane shareable: at most one thread waits here.
    ended: Mutex<std_mpsc::Receiver<()>>,
}

impl Lane {
    /// Starts a lane with a thread of this name.
    ///
    /// # Errors
    /// Returns an error if the system provides no thread or no event queue.
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
            // All tasks are dropped here, on their own thread, before the lane counts as ended.
            drop(tasks);
            // The runtime does not wait for its blocking threads, because one of them may wait for the
            // system's resolver for a long time.
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

    /// Returns the name of the lane.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the handle of the lane's runtime. Tasks spawned through the handle end with the lane too.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the lane. Dropping the [`LaneTask`] does not stop the future, but the end of the lane
    /// does.
    pub fn spawn<F>(&self, future: F) -> LaneTask<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_local_with(move || future)
    }

    /// Calls `make` on the lane, and runs the returned future on the lane. The future need not be `Send`.
    ///
    /// A lane that has stopped, or that has 1024 waiting starts, drops the future. The task then returns
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
                // The send fails if the caller dropped the task's handle.
                done.send(future.await).ok();
            });
        });
        if let Some(starts) = &self.starts
            && starts.try_send(start).is_err()
        {
            tracing::error!(lane = self.name, "a lane is blocked and accepts no more tasks");
        }
        LaneTask {
            lane: self.name.clone(),
            result,
        }
    }

    /// Stops the lane: drops all its tasks and joins its thread. Blocks until `deadline` at most.
    ///
    /// Tasks are dropped at the point where they wait. A caller that wants a graceful shutdown must tell its
    /// tasks before.
    ///
    /// # Errors
    /// Returns an error if a task keeps the thread busy beyond the deadline; the thread then keeps running.
    /// Returns an error if the thread panicked outside of a task, too.
    pub fn shutdown(mut self, deadline: Duration) -> Result<(), LaneError> {
        self.stop(deadline)
    }

    fn stop(&mut self, deadline: Duration) -> Result<(), LaneError> {
        self.starts = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        if thread.id == thread::current().id() {
            // One of the lane's own tasks dropped the lane. The thread cannot join itself, and ends when that
            // task waits next.
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
            tracing::error!(%error, "a lane did not end cleanly");
        }
    }
}

/// The handle of a task on a lane, which yields the task's result. Dropping the handle leaves the task
/// running.
#[must_use = "without its result, a failure of the task stays unnoticed; drop the handle explicitly if that is intended"]
pub struct LaneTask<T> {
    lane: String,
    result: oneshot::Receiver<T>,
}

impl<T> LaneTask<T> {
    /// Blocks this thread until the result is available. Must not be called within a runtime.
    ///
    /// # Errors
    /// Returns an error if the lane ended first, or if the task panicked.
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

/// An error of a lane.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The system provides no thread or no event queue.
    #[error("cannot start lane `{lane}`: {source}")]
    Start {
        /// The name of the lane.
        lane: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The lane ended, or the task panicked, before the result was available.
    #[error("lane `{lane}` ended, or its task panicked, before a result was available")]
    Stopped {
        /// The name of the lane.
        lane: String,
    },
    /// A task keeps the thread of the lane busy.
    #[error("lane `{lane}` did not end within {deadline_ms} ms: a task on it computes or blocks")]
    Stuck {
        /// The name of the lane.
        lane: String,
        /// The time waited, in milliseconds.
        deadline_ms: u128,
    },
    /// The thread of the lane panicked outside of a task.
    #[error("lane `{lane}` panicked: {message}")]
    Panicked {
        /// The name of the lane.
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

    /// A value that sets a flag when it is dropped.
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
        // Either the task finished, or the end of the lane dropped it. In either case the witness is dropped,
        // and the test does not block.
        task.wait().ok();
        assert!(dropped.load(Ordering::SeqCst));
    }
}
