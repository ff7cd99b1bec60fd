//! The executors of one function or iterable: started when somebody needs one and none is idle, replaced when
//! they have died, have served long enough or grown too large. Refuses to know how an executor is talked to.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millstream_pipeline::exec::{Cancel, ErrorKind, ExecError, Site, Value};
use parking_lot::Mutex;

use super::ending::{Ending, raised};
use super::executor::Executor;
use super::foreman::Foreman;
use super::interpreter::Interpreter;
use super::params::{Limits, NAME};
use super::wire::Input;

/// The time for which idle executors stay: over the end of an epoch, since importing takes seconds.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The time that an executor may take for a call that nobody wants any more. Within it the executor is kept,
/// since to start another takes as long as imports do.
const PARTING: Duration = Duration::from_millis(500);

/// The work of a pool of executors.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) interpreter: Interpreter,
    /// The description of elements and of the work with them, in JSON, for the executors.
    pub(super) described: String,
    pub(super) code: Vec<u8>,
    pub(super) limits: Limits,
}

/// Everybody who runs one piece of code. As many executors as calls at once: no more than the threads of the
/// worker.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) job: Job,
    state: Arc<Mutex<State>>,
    /// Held while a foreman is started, which takes as long as imports do.
    starting: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    foreman: Option<Arc<Foreman>>,
    idle: Vec<Executor>,
    /// The numbers that were given to executors, idle or at work.
    indices: BTreeSet<u32>,
    /// The number of executors that are not idle.
    at_work: usize,
    /// When the latest one was done.
    idle_since: Option<Instant>,
}

/// An executor at work, which has its number as long as this lives.
#[derive(Debug)]
pub(super) struct Hired {
    /// Absent before it is started, and once it is given back.
    executor: Option<Executor>,
    /// The number, unless it is given back.
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
    /// What the function raised, or what became of its process.
    pub(super) fn call(&self, value: &Value, site: &Site<'_>) -> Result<Value, ExecError> {
        let (hired, answered) = self.ask(value, 0, site)?;
        self.give_back(hired);
        answered?.ok_or_else(|| ExecError::new(ErrorKind::Internal, NAME, "the end of a function"))
    }

    /// Asks an executor for what the function makes of one element, and, of an iterable, for so many more of
    /// what it yields: the first of them, or `None` if it yields nothing, and the executor, for what follows.
    ///
    /// # Errors
    /// What became of its process; what the function raised, which ends no process, is among what it answers.
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
                // The process that starts executors was killed meanwhile: there is another now.
                Err(error) if error.kind() == ErrorKind::Resource && attempts < limits.attempts => continue,
                hired => hired?,
            };
            let executor = hired.executor()?;
            let asked = executor.ask(Some(&input), site.draw);
            if asked.is_err() && executor.calls() > 1 {
                // It died before it heard of the element: that is no attempt, and there are only so many idle
                // ones.
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
                    tracing::warn!(%gone, attempts, "a process of Python code has ended; its element is begun again");
                }
            }
        }
    }

    /// An executor: an idle one, or, of a number or where there is none, a new one.
    ///
    /// # Errors
    /// The code cannot be loaded, or no process started.
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

    /// An idle executor, or a number for a new one.
    fn place(&self, index: Option<u32>) -> Hired {
        let mut state = self.state.lock();
        state.at_work += 1;
        let executor = if index.is_none() { state.idle.pop() } else { None };
        let index = index.or_else(|| executor.as_ref().map(Executor::index));
        let index = index.unwrap_or_else(|| {
            // As many are taken as there are executors.
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

    /// Gives back an executor that was asked for what nobody wants any more, if it answers soon; else it is
    /// ended.
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

    /// Keeps an executor, which has answered everything, for the next call, unless it has served long enough.
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

    fn foreman(&self, site: &Site<'_>) -> Result<Arc<Foreman>, ExecError> {
        let _alone = self.starting.lock();
        if let Some(foreman) = self
            .state
            .lock()
            .foreman
            .clone()
            .filter(|foreman| foreman.is_there())
        {
            return Ok(foreman);
        }
        let state = Arc::downgrade(&self.state);
        let Job {
            interpreter,
            described,
            code,
            ..
        } = &self.job;
        let started = Foreman::start(interpreter, described, code, site.cancel, move || {
            dismiss_idle(&state)
        })?;
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

/// Ends executors, and their foreman, that nobody has asked for long.
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
    /// The executor.
    pub(super) fn executor(&mut self) -> Result<&mut Executor, ExecError> {
        let given = || ExecError::new(ErrorKind::Internal, NAME, "an executor that was given back");
        self.executor.as_mut().ok_or_else(given)
    }
}

impl Drop for Hired {
    fn drop(&mut self) {
        // The process first: its number is another's only afterwards.
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

/// The memory of this machine, or of the group of processes that this one is in.
fn machine_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let group = group.trim().parse::<u64>().unwrap_or(u64::MAX);
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024)).min(group)
}
