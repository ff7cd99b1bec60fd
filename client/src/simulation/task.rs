//! One task of a worker: requests and returns splits, produces and writes elements, and reports the task's
//! end.

use std::time::Duration;

use millstream_control::agent::FeedDemand;
use millstream_control::agent::{FeedBatch, FeedRun};
use millstream_control::{Error, FailureReport, LeaseRange, Policy, Reply, Request, TaskDef, TaskId};
use millstream_dataplane::proto::message::Failure;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::{ProduceError, Producer, TaskMode};
use millstream_element::{Dtype, ElementSpec, HeapAlloc, Provenance, Shape, TensorSpec, WriteError};

use super::bugs::Bug;
use super::flow::{Flow, Row, Step};
use super::oracle::IterationKey;
use super::session::Purpose;
use super::worker::served;
use super::world::{Event, Pid, World};

/// The number of splits that a task requests at a time.
const WANT: u32 = 16;
/// The number of words in an element: four that identify the element and count its items, and four for each
/// item.
const WORDS: u64 = 4 + 4 * ITEMS_MAX;
/// Maximum number of items of one element.
pub(super) const ITEMS_MAX: u64 = 4;
/// Maximum number of elements that a task produces at a time.
const RUN_MAX: usize = 3;

/// The state of a task at its worker.
pub(super) struct Task {
    pub(super) iteration: IterationKey,
    pub(super) producer: Option<Producer>,
    pub(super) flow: Flow,
    /// The number of unanswered requests for splits.
    pub(super) asking: usize,
    /// The latest demand of the task.
    pub(super) demand: FeedDemand,
    /// The leases to return once all answers have arrived.
    pub(super) unstarted: Vec<LeaseRange>,
    pub(super) returning: usize,
    /// The progress of reporting the task's end to the dispatcher; `None` while the task runs.
    pub(super) report: Option<Report>,
    pub(super) exhausted: bool,
}

/// The progress of the report of a task's end to the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The task waits until its returned splits are accepted.
    Ended,
    Finishing,
    /// The task waits for its readers.
    Settling,
    Telling,
    Done,
    Failed,
}

impl World {
    pub(super) fn start_task(&mut self, pid: Pid, def: TaskDef) {
        let boot = self.center.boot().map_or(0, |boot| boot.0);
        let Some(job) = def.dataset.definition.first().copied() else {
            return;
        };
        let chance = self.chance.fork();
        let dataset = self.jobs[usize::from(job)].dataset.clone();
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let own = worker.session.as_ref().and_then(|session| session.boot);
        let boot = own.map_or(boot, |boot| boot.0);
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[WORDS])).expect("a spec");
        let producer = worker.server.add_task(
            served(def.task),
            TaskMode::FirstCome,
            &spec,
            std::sync::Arc::new(HeapAlloc),
        );
        let mut flow = Flow::new(&dataset, &def, def.policy == Policy::Dynamic, chance);
        flow.is_draining = worker.is_draining;
        let iteration = IterationKey {
            boot,
            iteration: def.iteration,
        };
        let task = Task {
            iteration,
            producer: Some(producer.expect("the task is new to this worker")),
            flow,
            asking: 0,
            demand: FeedDemand {
                want: WANT,
                pace: None,
            },
            unstarted: Vec::new(),
            returning: 0,
            report: None,
            exhausted: def.policy != Policy::Dynamic,
        };
        worker.tasks.insert(def.task, task);
        self.oracle
            .task_began(iteration, usize::from(job), def.repetition, def.task);
    }

    pub(super) fn leased(
        &mut self,
        pid: Pid,
        id: TaskId,
        source: u32,
        repetition: u64,
        result: Result<Reply, Error>,
    ) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        let Ok(Reply::Splits {
            runs,
            end,
            current,
            more,
            ..
        }) = result
        else {
            // The task was removed; the agent will soon receive the order to stop it.
            task.asking -= 1;
            return;
        };
        if runs.is_empty() && !end {
            // The task holds its part (C5.1) or too many unconfirmed splits (C5.2), or waits for its turn
            // (C5.9).
            if let Some(goal) = task.flow.books.goal(source) {
                task.demand = goal.demand(task.flow.books.held(source));
            }
            let later = self.now + Duration::from_millis(20);
            return self.at(later, Event::AskAgain(pid, id, source, repetition));
        }
        let leased: u64 = runs.iter().map(|run| run.count).sum();
        let held = task.flow.books.held(source) + leased;
        let may_follow = more && !end && task.report.is_none() && !task.flow.is_draining;
        let goal = task.flow.books.goal(source);
        let goal = goal.filter(|goal| may_follow && goal.wants_more(held));
        let next = goal.map(|goal| goal.demand(held));
        task.asking -= usize::from(next.is_none());
        let runs = runs.into_iter().map(FeedRun::without_payloads);
        let batch = FeedBatch {
            runs: runs.collect(),
            end,
            current,
            more,
            follows: next.is_some(),
        };
        if task.report.is_some() {
            task.unstarted
                .extend(batch.runs.iter().map(|leased| leased.run.leases()));
            self.give_back(pid, id);
        } else {
            task.flow.books.answered(source, batch);
            if let Some(next) = next {
                task.demand = next;
                self.ask_splits(pid, id, source, repetition);
            }
        }
    }

    pub(super) fn ask_splits(&mut self, pid: Pid, id: TaskId, source: u32, repetition: u64) {
        let worker = self.workers.get_mut(&pid);
        let task = worker.and_then(|worker| worker.tasks.get(&id));
        if let Some(demand) = task.map(|task| task.demand) {
            let request = Request::LeaseSplits {
                task: id,
                source,
                repetition,
                want: demand.want.min(WANT),
                pace: demand.pace,
                is_idle: false,
            };
            let purpose = Purpose::Lease {
                task: id,
                source,
                repetition,
            };
            self.call(pid, purpose, request);
        }
    }

    /// Repeats a request that got no splits, unless the task has ended, which also ends its requests.
    pub(super) fn ask_again(&mut self, pid: Pid, id: TaskId, source: u32, repetition: u64) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        if task.report.is_none() {
            return self.ask_splits(pid, id, source, repetition);
        }
        task.asking -= 1;
        self.give_back(pid, id);
        self.report_end(pid, id);
    }

    /// Returns the unstarted splits once every answer has arrived (C5.5).
    pub(super) fn give_back(&mut self, pid: Pid, id: TaskId) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        if task.asking > 0 || task.unstarted.is_empty() {
            return;
        }
        let leases = std::mem::take(&mut task.unstarted);
        task.returning += 1;
        self.call(
            pid,
            Purpose::Return(id),
            Request::ReturnSplits { task: id, leases },
        );
    }

    /// Produces the next elements of a task, as far as splits, room and a reader are available.
    pub(super) fn work(&mut self, pid: Pid, id: TaskId) {
        let ends_early = self.bug == Some(Bug::SplitDoneTooEarly);
        for _ in 0..RUN_MAX {
            let worker = self.workers.get_mut(&pid);
            let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
                return;
            };
            let Some(producer) = &mut task.producer else {
                return;
            };
            if !producer.is_started() || !producer.has_room() {
                return;
            }
            task.flow.now = self.now;
            match task.flow.step() {
                Step::Row(row) => {
                    if ends_early {
                        task.flow.end_begun();
                        tell_finished(producer, &mut task.flow);
                    }
                    write(producer, task.iteration, id, &row);
                    tell_finished(producer, &mut task.flow);
                }
                Step::Ask {
                    source,
                    repetition,
                    demand,
                } => {
                    tell_finished(producer, &mut task.flow);
                    task.flow.books.asked(source, repetition, demand.want.min(WANT));
                    task.demand = demand;
                    task.asking += 1;
                    self.ask_splits(pid, id, source, repetition);
                }
                Step::Wait => return tell_finished(producer, &mut task.flow),
                Step::End => return self.end_task(pid, id, Ending::Exhausted),
                Step::Fail => {
                    let failure = Failure::new("data", "a record is damaged", "", "");
                    return self.end_task(pid, id, Ending::Failed(failure));
                }
            }
        }
    }

    pub(super) fn end_task(&mut self, pid: Pid, id: TaskId, ending: Ending) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        let Some(mut producer) = task.producer.take() else {
            return;
        };
        tell_finished(&mut producer, &mut task.flow);
        task.exhausted |= task.flow.books.is_exhausted();
        task.unstarted = task.flow.books.take_unstarted();
        let is_failure = matches!(ending, Ending::Failed(_));
        task.report = Some(if is_failure { Report::Failed } else { Report::Ended });
        producer.finish(ending);
        if is_failure {
            self.oracle.failed(task.iteration);
            let report = FailureReport::new("a record is damaged");
            self.call(pid, Purpose::FailTask, Request::FailTask { task: id, report });
        }
        self.note(format_args!("worker {pid} ends {id}, failure {is_failure}"));
        self.give_back(pid, id);
    }

    /// Reports the end of a task to the dispatcher: first that the task has ended, later that its elements
    /// were delivered.
    pub(super) fn report_end(&mut self, pid: Pid, id: TaskId) {
        let settles_early = self.bug == Some(Bug::SettledTooEarly);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let is_settled = worker.server.is_settled(served(id)) || settles_early;
        let Some(task) = worker.tasks.get_mut(&id) else {
            return;
        };
        let is_returned = task.returning == 0 && task.asking == 0 && task.unstarted.is_empty();
        let delivered = match task.report {
            Some(Report::Ended) if is_returned => false,
            Some(Report::Settling) if is_settled => true,
            _ => return,
        };
        task.report = Some(if delivered {
            Report::Telling
        } else {
            Report::Finishing
        });
        let request = Request::FinishTask {
            task: id,
            delivered,
            exhausted: task.exhausted,
            cut_short: task.flow.is_cut_short && self.bug != Some(Bug::CutShortNotSaid),
        };
        self.call(pid, Purpose::Finish { task: id, delivered }, request);
    }
}

fn tell_finished(producer: &mut Producer, flow: &mut Flow) {
    for (lease, attempt) in flow.finished.drain(..) {
        producer.split_done(lease, attempt);
    }
}

fn write(producer: &mut Producer, iteration: IterationKey, task: TaskId, row: &Row) {
    let written = producer.written_elements();
    let leases = row.leases.iter().map(|(lease, attempt)| Provenance {
        lease: *lease,
        attempt: *attempt,
        from: 0,
        upto: 1,
    });
    let provenance: Vec<Provenance> = leases.collect();
    let outcome = producer.write(|pack, layout| -> Result<(), ProduceError<()>> {
        let begun = pack.begin(layout, &[Shape::fixed(&[WORDS])], provenance.len());
        let mut element = match begun {
            Ok(element) => element,
            Err(WriteError::Full { needed_bytes, .. }) => return Err(ProduceError::Full { needed_bytes }),
            Err(error) => panic!("{error}"),
        };
        let mut words = vec![
            iteration.boot,
            iteration.iteration.0,
            task.0,
            row.items.len() as u64,
        ];
        for item in &row.items {
            words.extend([item.source, item.pass, item.index, item.number]);
        }
        words.resize(WORDS as usize, 0);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for (place, byte) in element.component_mut(0).iter_mut().zip(bytes) {
            *place = byte;
        }
        element
            .finish(written, &provenance)
            .expect("the provenance has the announced length");
        Ok(())
    });
    outcome.expect("the element is written");
}
