//! The threads that run the calls of parallel maps. All pipelines of a process share these threads; I/O does
//! not use them.
//!
//! A user's function cannot be interrupted. A function that never returns keeps its thread until the process
//! ends. The function's pipeline can be cancelled, and all other pipelines continue on the remaining threads.
//! [`Pool::shutdown`] waits for at most a given time, and returns the number of threads that are still inside
//! a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};

use super::cancel::Cancel;
use super::error::{ErrorKind, ExecError};

/// Maximum number of calls that wait for a thread, over all pipelines. A caller that submits a further call
/// blocks.
const QUEUE_MAX: usize = 1024;
/// The time for which dropping a pool waits for running calls.
const GRACE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads and a bounded queue of calls.
#[derive(Debug)]
pub struct Pool {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    /// A channel that disconnects when the last thread has ended. The channel never carries a message.
    ended: Receiver<()>,
}

impl Pool {
    /// Starts `threads` threads, but at least one.
    ///
    /// # Errors
    /// [`ExecError`] of kind `Resource` if the system cannot start a thread.
    pub fn new(threads: usize) -> Result<Pool, ExecError> {
        let (jobs, queue) = bounded::<Job>(QUEUE_MAX);
        let (alive, ended) = bounded::<()>(0);
        let mut started = Vec::new();
        for index in 0..threads.max(1) {
            let (queue, alive) = (queue.clone(), alive.clone());
            let work = move || {
                for job in queue {
                    // A job reports its own panics. This guard keeps the thread alive whatever the job does.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
                drop(alive);
            };
            let thread = std::thread::Builder::new()
                .name(format!("pipeline-{index}"))
                .spawn(work);
            let refused = |error: std::io::Error| {
                ExecError::new(
                    ErrorKind::Resource,
                    "pool",
                    format!("cannot start thread {index}: {error}"),
                )
            };
            started.push(thread.map_err(refused)?);
        }
        Ok(Pool {
            jobs: Some(jobs),
            threads: started,
            ended,
        })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Ends the threads once the queue is empty. Blocks for at most `grace` while calls are running.
    ///
    /// # Errors
    /// The number of threads that are stuck in a call. These threads end when their calls return.
    pub fn shutdown(mut self, grace: Duration) -> Result<(), usize> {
        self.stop(grace)
    }

    /// Queues `job`. Blocks while the queue is full, unless `cancel` is raised.
    pub(crate) fn submit(&self, op: &str, cancel: &Cancel, job: Job) -> Result<(), ExecError> {
        cancel.check(op)?;
        let ended = || ExecError::new(ErrorKind::Internal, op, "the thread pool has ended");
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        select! {
            send(jobs, job) -> sent => sent.map_err(|_| ended()),
            recv(cancel.signal()) -> _ => Err(ExecError::cancelled(op)),
        }
    }

    /// Queues `job` if the queue has space, for a caller that can continue without the job. Returns whether
    /// `job` was queued.
    pub(crate) fn offer(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    fn stop(&mut self, grace: Duration) -> Result<(), usize> {
        self.jobs.take();
        // No message is ever sent: the call returns when the time is up or the last thread has ended.
        let all_ended = matches!(
            self.ended.recv_timeout(grace),
            Err(RecvTimeoutError::Disconnected)
        );
        let mut stuck = 0;
        for thread in self.threads.drain(..) {
            if all_ended || thread.is_finished() {
                // The threads catch the panics of jobs, so `join` returns no panic to report.
                let _ = thread.join();
            } else {
                stuck += 1;
            }
        }
        if stuck == 0 { Ok(()) } else { Err(stuck) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Err(stuck) = self.stop(GRACE) {
            tracing::warn!(stuck, "threads are still inside user functions and are abandoned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_call_blocks_no_shutdown() {
        let pool = Pool::new(2).unwrap();
        let cancel = Cancel::new();
        let (release, stuck) = bounded::<()>(0);
        let (done, finished) = bounded(1);
        let (begun, begins) = bounded(1);
        let stick = move || {
            begun.send(()).unwrap();
            let _ = stuck.recv();
        };
        pool.submit("test", &cancel, Box::new(stick)).unwrap();
        begins.recv().unwrap();
        pool.submit("test", &cancel, Box::new(move || done.send(7).unwrap()))
            .unwrap();
        assert_eq!(finished.recv(), Ok(7));
        assert_eq!(pool.shutdown(Duration::from_millis(10)), Err(1));
        drop(release);
    }

    #[test]
    fn a_panicking_call_costs_no_thread() {
        let pool = Pool::new(1).unwrap();
        let (done, finished) = bounded(1);
        pool.submit(
            "test",
            &Cancel::new(),
            Box::new(|| panic!("expected by the test")),
        )
        .unwrap();
        pool.submit("test", &Cancel::new(), Box::new(move || done.send(7).unwrap()))
            .unwrap();
        assert_eq!(finished.recv(), Ok(7));
        assert_eq!(pool.shutdown(GRACE), Ok(()));
    }
}
