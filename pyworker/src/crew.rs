//! A crew: the pool of executors for one function or iterable. The pool starts an executor when a call finds
//! none idle. The pool replaces executors that have died, have served long enough, or have grown too large.
//! This file does not know the protocol of executors.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millstream_pipeline::exec::{Cancel, ErrorKind, ExecError, Site, Value};
use parking_lot::Mutex;

use super::ending::Ending;
use super::executor::Executor;
use super::foreman::Foreman;
use super::interpreter::Interpreter;
use super::params::{Limits, NAME, raised};
use super::wire::Input;

/// The time for which idle executors are kept. The time is long enough to span the pause between epochs,
/// because importing modules takes seconds.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The time that an executor has to finish an unwanted call. An executor that finishes in time is kept,
/// because starting another one takes as long as the imports.
const PARTING: Duration = Duration::from_millis(500);

/// The interval at which a call that waits for other calls checks for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The code that a pool of executors runs, with its interpreter and limits.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) interpreter: Interpreter,
    /// The description of the work and of the elements, as JSON for the executors.
    pub(super) described: String,
    pub(super) code: Vec<u8>,
    pub(super) limits: Limits,
}

/// The pool of executors that run one piece of code. The pool has one executor for each concurrent call, so
/// at most one for each thread of the worker.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) job: Job,
    state: Arc<Mutex<State>>,
    /// A lock that one call holds while it waits for a foreman process, which takes as long as the imports.
    starting: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    foreman: Option<Arc<Foreman>>,
    idle: Vec<Executor>,
    /// The numbers of all executors, idle or at work.
    indices: BTreeSet<u32>,
    /// The number of executors that are at work.
    at_work: usize,
    /// The time at which an executor last finished its work.
    idle_since: Option<Instant>,
}

/// An executor at work. The executor keeps its number until this value is dropped.
#[derive(Debug)]
pub(super) struct Hired {
    /// The executor; `None` before it is started, and after it was returned to the pool.
    executor: Option<Executor>,
    /// The executor's number; `None` after the executor was returned to the pool.
    index: Option<u32>,
    home: Weak<Mutex<State>>,
}

impl Crew {
    /// Makes a pool without executors.
    pub(super) fn new(mut job: Job) -> Crew {
        if job.limits.memory_bytes == 0 {
            job.limits.memory_bytes = machine_bytes() / 2;
        }
        Crew {
            job,
            state: Arc::default(),
            starting: Mutex::new(()),
        }
    }

    /// Calls the function with one element.
    ///
    /// # Errors
    /// Returns the exception of the function, or the reason for the end of the function's process.
    pub(super) fn call(&self, value: &Value, site: &Site<'_>) -> Result<Value, ExecError> {
        let (hired, answered) = self.ask(value, 0, site)?;
        self.give_back(hired);
        answered?.ok_or_else(|| {
            ExecError::new(
                ErrorKind::Internal,
                NAME,
                "expected a result from the function, found the end of an iterable",
            )
        })
    }

    /// Calls the code with one element, and returns the first answer together with the executor. For an
    /// iterable, also requests `more` further elements in advance. The answer is `None` if the iterable
    /// yields nothing.
    ///
    /// # Errors
    /// Returns the reason for the end of the executor's process. An exception of the code does not end the
    /// process, and is part of the answer.
    pub(super) fn ask(
        &self,
        value: &Value,
        more: usize,
        site: &Site<'_>,
    ) -> Result<(Hired, Result<Option<Value>, ExecError>), ExecError> {
        let input = Input::new(value)?;
        let limits = &self.job.limits;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut hired = match self.hire(None, site) {
                // The foreman process was killed during the attempt. The next attempt starts another foreman.
                Err(error) if error.kind() == ErrorKind::Resource && attempts < limits.attempts => continue,
                hired => hired?,
            };
            let executor = hired.executor()?;
            let asked = executor.ask(Some(&input), site.draw);
            if asked.is_err() && executor.calls() > 1 {
                // The idle executor died before it received the element, so this does not count as an
                // attempt. The loop ends because the number of idle executors is limited.
                attempts -= 1;
                continue;
            }
            let asked = asked.and_then(|()| executor.ask_ahead(1 + more, limits));
            match asked.and_then(|()| executor.answer(limits, site.cancel)) {
                Ok(made) => return Ok((hired, Ok(Some(made)))),
                Err(Ending::Raised { said, traceback }) => return Ok((hired, Err(raised(said, traceback)))),
                Err(Ending::Cancelled) => {
                    self.part(hired);
                    return Err(ExecError::cancelled(NAME));
                }
                Err(Ending::Exhausted) => return Ok((hired, Ok(None))),
                Err(Ending::Gone(gone)) => {
                    if !gone.is_worth_another_attempt() || attempts >= limits.attempts {
                        return Err(gone.failure(attempts));
                    }
                    tracing::warn!(%gone, attempts, "a process of Python code has ended; another process repeats its element");
                }
            }
        }
    }

    /// Returns an idle executor. Starts a new executor if none is idle, or if `index` is given.
    ///
    /// # Errors
    /// Fails if the code cannot be loaded, if no process can be started, or if the call is cancelled.
    pub(super) fn hire(&self, index: Option<u32>, site: &Site<'_>) -> Result<Hired, ExecError> {
        let mut hired = self.place(index);
        if hired.executor.is_some() {
            return Ok(hired);
        }
        let index = hired.index.unwrap_or_default();
        let foreman = self.foreman(site)?;
        let executor = Executor::start(
            Arc::clone(&foreman),
            index,
            site.draw,
            &self.job.limits,
            site.cancel,
        );
        hired.executor = Some(executor.inspect_err(|_| self.dismiss_if_gone(&foreman))?);
        Ok(hired)
    }

    /// Takes an idle executor, or reserves the number for a new executor.
    fn place(&self, index: Option<u32>) -> Hired {
        let mut state = self.state.lock();
        state.at_work += 1;
        let executor = if index.is_none() { state.idle.pop() } else { None };
        let index = index.or_else(|| executor.as_ref().map(Executor::index));
        let index = index.unwrap_or_else(|| {
            // The number of reserved indices is the number of executors, so a free index exists.
            let free = (0..u32::MAX).find(|index| !state.indices.contains(index));
            free.unwrap_or_default()
        });
        state.indices.insert(index);
        Hired {
            executor,
            index: Some(index),
            home: Arc::downgrade(&self.state),
        }
    }

    /// Returns an executor with unwanted requests to the pool, if the executor answers soon. Otherwise ends
    /// the executor.
    pub(super) fn part(&self, mut hired: Hired) {
        let nobody = Cancel::new();
        while let Ok(executor) = hired.executor()
            && executor.unanswered() > 0
        {
            if !executor.is_about_to_answer(PARTING) {
                return;
            }
            if let Err(Ending::Gone(_) | Ending::Cancelled) = executor.answer(&self.job.limits, &nobody) {
                return;
            }
        }
        self.give_back(hired);
    }

    /// Returns an executor without open requests to the pool, unless the executor has served long enough or
    /// grown too large.
    fn give_back(&self, mut hired: Hired) {
        let limits = &self.job.limits;
        let is_spent = |executor: &Executor| {
            let is_worn = limits.recycle_after > 0 && executor.calls() >= limits.recycle_after;
            is_worn || executor.is_swollen(limits)
        };
        let Some(executor) = hired.executor.take_if(|executor| !is_spent(executor)) else {
            return;
        };
        hired.index = None;
        self.state.lock().idle.push(executor);
    }

    /// Returns the foreman process after its imports. Starts the process if none is there. A cancelled call
    /// leaves the process to the next call, because imports can take longer than a task lasts.
    fn foreman(&self, site: &Site<'_>) -> Result<Arc<Foreman>, ExecError> {
        let cancelled = || site.cancel.is_cancelled().then(|| ExecError::cancelled(NAME));
        let _alone = loop {
            let alone = self.starting.try_lock_for(LOOK_EVERY);
            if let Some(error) = cancelled() {
                return Err(error);
            }
            if let Some(alone) = alone {
                break alone;
            }
        };
        let known = self.state.lock().foreman.clone();
        if let Some(foreman) = known.filter(|foreman| foreman.is_there()) {
            match self.wait_for(&foreman, site) {
                Ok(()) => return Ok(foreman),
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                // The process failed while no call waited for it. This call starts its own.
                Err(error) => tracing::debug!(%error, "another process for Python code follows"),
            }
        }
        let foreman = self.start_foreman()?;
        self.wait_for(&foreman, site)?;
        Ok(foreman)
    }

    fn wait_for(&self, foreman: &Arc<Foreman>, site: &Site<'_>) -> Result<(), ExecError> {
        let ready = foreman.wait(&self.job.interpreter, site.cancel);
        ready.inspect_err(|_| self.dismiss_if_gone(foreman))
    }

    fn start_foreman(&self) -> Result<Arc<Foreman>, ExecError> {
        let state = Arc::downgrade(&self.state);
        let Job {
            interpreter,
            described,
            code,
            ..
        } = &self.job;
        let started = Foreman::start(interpreter, described, code, move || dismiss_idle(&state))?;
        let foreman = Arc::new(started);
        let before = self.state.lock().foreman.replace(Arc::clone(&foreman));
        drop(before);
        Ok(foreman)
    }

    fn dismiss_if_gone(&self, foreman: &Arc<Foreman>) {
        let mut state = self.state.lock();
        let is_it = state
            .foreman
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, foreman));
        let gone = state.foreman.take_if(|known| is_it && !known.is_there());
        drop(state);
        drop(gone);
    }
}

/// Ends all executors and their foreman process, if no call has used them for a while.
fn dismiss_idle(state: &Weak<Mutex<State>>) {
    let Some(state) = state.upgrade() else {
        return;
    };
    let mut books = state.lock();
    let is_over = books.idle_since.is_some_and(|since| since.elapsed() > IDLE_MAX);
    if !is_over || books.at_work > 0 {
        return;
    }
    let (idle, foreman) = (std::mem::take(&mut books.idle), books.foreman.take());
    books.indices.clear();
    books.idle_since = None;
    drop(books);
    drop((idle, foreman));
}

impl Hired {
    /// Returns the executor.
    pub(super) fn executor(&mut self) -> Result<&mut Executor, ExecError> {
        let given = || {
            ExecError::new(
                ErrorKind::Internal,
                NAME,
                "the executor was already returned to its pool",
            )
        };
        self.executor.as_mut().ok_or_else(given)
    }
}

impl Drop for Hired {
    fn drop(&mut self) {
        // The process must end first, because afterwards another executor may get its number.
        drop(self.executor.take());
        if let Some(home) = self.home.upgrade() {
            let mut state = home.lock();
            state.at_work -= 1;
            state.idle_since = Some(Instant::now());
            if let Some(index) = self.index {
                state.indices.remove(&index);
            }
        }
    }
}

/// Returns the memory of this machine, or the memory limit of this process's control group if that is lower.
fn machine_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let group = group.trim().parse::<u64>().unwrap_or(u64::MAX);
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024)).min(group)
}
