//! Requests: the roles that may send them, the remembered answers, and the procedures that carry them out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_link::Role;

use super::action::{Action, Reply};
use super::config::REQUESTS_OPEN_MAX;
use super::event::{Incoming, ReplyToken, Request};
use super::machine::Dispatcher;
use super::outcome::Outcome;
use super::record::{Answer, QuotaOwner, SessionRecord};
use super::state::ServiceState;
use super::task::Ended;
use crate::error::Error;
use crate::id::{RequestNumber, SessionId};

/// Maximum number of tokens that wait for one answer. A process that repeats a request more often has given
/// up on its earlier attempts.
const WAITERS_MAX: usize = 8;

impl Dispatcher {
    pub(super) fn handle_request(&mut self, incoming: Incoming) {
        let Incoming {
            token,
            session,
            role,
            number,
            settled_below,
            request,
        } = incoming;
        if !request.permitted_to(role) {
            let name = request.name();
            // Roles may send only their own requests (C1.4).
            let error = Error::denied(format!("a peer of role `{role}` may not {name}"));
            return self.reply(token, Err(error));
        }
        if let Err(error) = self.refuse_new(&request) {
            return self.reply(token, Err(error));
        }
        let asker = QuotaOwner {
            session,
            is_read: role == Role::Read,
        };
        if !request.is_numbered() {
            let result = match self.perform(asker, None, request) {
                Ok(Outcome::Answer(answer)) => self.state.present(&answer),
                Ok(Outcome::Reply(reply)) => Ok(reply),
                Ok(Outcome::Later) => return,
                Err(error) => Err(error),
            };
            return self.reply(token, result);
        }
        match self.admit(token, asker, number, settled_below) {
            Ok(Some(number)) => self.perform_once(token, asker, number, request),
            Ok(None) => {}
            Err(error) => self.reply(token, Err(error)),
        }
    }

    /// Decides what happens with a numbered request: the dispatcher carries the request out, lets it wait
    /// with its repetition, or answers it from memory (C1.5).
    fn admit(
        &mut self,
        token: ReplyToken,
        QuotaOwner { session, is_read }: QuotaOwner,
        number: Option<RequestNumber>,
        settled_below: RequestNumber,
    ) -> Result<Option<RequestNumber>, Error> {
        let number = number.ok_or_else(|| Error::invalid("this request needs a request number"))?;
        if !self.state.tables.sessions.contains(&session) {
            self.state.check_sessions(is_read)?;
            let record = SessionRecord {
                id: session,
                is_read,
                floor: RequestNumber::FIRST,
                answers: BTreeMap::new(),
            };
            self.state.tables.sessions.insert(record);
        }
        self.state.tables.sessions.seen.note(session, self.state.now);
        self.settle_requests(session, settled_below);
        let Some(record) = self.state.tables.sessions.get(&session) else {
            return Err(Error::internal("a session that was just made is gone"));
        };
        if let Some(answer) = record.answers.get(&number).cloned() {
            let result = self.state.present(&answer);
            self.reply(token, result);
            return Ok(None);
        }
        let floor = record.floor;
        if let Some(tokens) = self.under_way.get_mut(&(session, number)) {
            if tokens.len() >= WAITERS_MAX {
                return Err(Error::exhausted(
                    "this request is in progress and was repeated too often: wait for its answer",
                ));
            }
            tokens.push(token);
            return Ok(None);
        }
        if number < floor {
            return Err(Error::invalid(format!(
                "request {number} of this process was answered and its answer forgotten, because the \
                 process had confirmed it"
            )));
        }
        if number.0 - floor.0 >= REQUESTS_OPEN_MAX {
            return Err(Error::exhausted(format!(
                "request {number} of this process comes too early: request {floor} is unsettled, and at \
                 most {REQUESTS_OPEN_MAX} requests from there on may be open"
            )));
        }
        Ok(Some(number))
    }

    fn settle_requests(&mut self, session: SessionId, below: RequestNumber) {
        let floor = self
            .state
            .tables
            .sessions
            .get(&session)
            .map(|record| record.floor);
        if floor.is_some_and(|floor| floor < below)
            && let Some(record) = self.state.tables.sessions.get_mut(&session)
        {
            record.floor = below;
            record.answers = record.answers.split_off(&below);
        }
    }

    fn perform_once(
        &mut self,
        token: ReplyToken,
        owner: QuotaOwner,
        number: RequestNumber,
        request: Request,
    ) {
        let session = owner.session;
        self.under_way.insert((session, number), vec![token]);
        match self.perform(owner, Some(number), request) {
            Ok(Outcome::Answer(answer)) => self.answer(session, number, answer),
            Ok(Outcome::Reply(reply)) => {
                // No numbered request has an answer of this kind. If one had, its answer would not be
                // remembered.
                self.under_way.remove(&(session, number));
                self.reply(token, Ok(reply));
            }
            Ok(Outcome::Later) => {}
            Err(error) => self.answer(session, number, Answer::Refused(error)),
        }
    }

    /// Answers a numbered request to every caller that waits for the answer, and remembers the answer.
    pub(super) fn answer(&mut self, session: SessionId, number: RequestNumber, answer: Answer) {
        let tokens = self.under_way.remove(&(session, number)).unwrap_or_default();
        // An answer below the floor is not remembered, because the process has declared that it does not
        // need the answer.
        let open = self
            .state
            .tables
            .sessions
            .get(&session)
            .is_some_and(|record| number >= record.floor);
        if open && let Some(record) = self.state.tables.sessions.get_mut(&session) {
            record.answers.insert(number, answer.clone());
        }
        for token in tokens {
            let result = self.state.present(&answer);
            self.reply(token, result);
        }
    }

    fn reply(&mut self, token: ReplyToken, result: Result<Reply, Error>) {
        self.state.act(Action::Reply { token, result });
    }

    fn perform(
        &mut self,
        owner: QuotaOwner,
        number: Option<RequestNumber>,
        request: Request,
    ) -> Result<Outcome, Error> {
        let (session, state) = (owner.session, &mut self.state);
        let tables = &mut state.tables;
        let done = |result: Result<(), Error>| result.map(|()| Outcome::Answer(Answer::Done));
        match request {
            Request::RegisterDataset {
                id,
                definition,
                facts,
            } => state.register_dataset(session, id, definition, facts),
            Request::DescribeDataset { id } => state.describe_dataset(&id),
            Request::ReadDefinition { id } => state.read_definition(&id),
            Request::CreateJob { name, parameters } => state.create_job(owner, name, parameters),
            Request::OpenIteration {
                job,
                repetition,
                consumer,
                whereabouts,
            } => state.open_iteration((owner, number), (job, repetition), consumer, whereabouts),
            Request::Attach { client } => done(self.attach(session, client)),
            Request::Release { client } => done(state.release(session, client)),
            Request::Acknowledge { client, task, seen } => {
                done(state.acknowledge(session, client, task, &seen))
            }
            Request::SplitsDone { client, task, leases } => {
                done(tables.splits_done(session, client, task, &leases))
            }
            Request::SplitsWaiting(client, task, leases) => done(tables.keep(session, client, task, &leases)),
            Request::TaskDrained { client, task } => done(state.task_drained(session, client, task)),
            Request::SuspectWorker { client, address } => done(state.suspect(session, client, address)),
            Request::RoundReady {
                client,
                task,
                earliest,
            } => done(state.round_ready(session, client, task, earliest)),
            Request::VerdictHeard { client, task } => done(state.verdict_heard(session, client, task)),
            Request::Status => Ok(Outcome::Reply(Reply::Status(Box::new(self.status())))),
            Request::Shutdown { by } => done(self.shut_down(by)),
            Request::RegisterWorker(worker) => state.register_worker(session, worker),
            Request::LeaveWorker => done(state.leave_worker(session)),
            Request::DrainWorker => done(state.drain_worker(session)),
            Request::DescribeTask { task } => tables.describe_task(session, task),
            Request::LeaseSplits {
                task,
                source,
                repetition,
                want,
                pace,
                is_idle,
            } => state.lease_splits(session, task, (source, repetition), (want, is_idle), pace),
            Request::ReturnSplits { task, leases } => done(state.return_splits(session, task, &leases)),
            Request::SplitsProduced { task, leases } => done(tables.splits_produced(session, task, &leases)),
            Request::SplitsMissed(task, client, leases, end) => {
                done(state.splits_missed(session, task, client, (&leases, end)))
            }
            Request::SplitsShared(task, client, of) => done(tables.splits_shared(session, task, client, &of)),
            Request::FinishTask {
                task,
                delivered,
                exhausted,
                cut_short,
            } => done(state.finish_task(session, task, delivered, Ended { exhausted, cut_short })),
            Request::FailTask { task, report } => done(state.fail_task(session, task, report)),
        }
    }
}

impl ServiceState {
    /// Returns a remembered answer in the form in which it is sent.
    fn present(&self, answer: &Answer) -> Result<Reply, Error> {
        match answer {
            Answer::Done => Ok(Reply::Done),
            Answer::Dataset(id) => Ok(Reply::Dataset(id.clone())),
            Answer::Job(id) => Ok(Reply::Job(*id)),
            Answer::Client(id) => Ok(Reply::Client(*id, self.tables.files_of(*id))),
            Answer::Splits {
                iteration,
                runs,
                end,
                current,
                more,
            } => {
                let plan = self.tables.books.plan(*iteration).ok_or_else(|| {
                    Error::aborted(format!(
                        "iteration {iteration} is over: its splits are not needed"
                    ))
                })?;
                Ok(Reply::Splits {
                    runs: runs.clone(),
                    end: *end,
                    current: *current,
                    more: *more,
                    plan: Arc::clone(plan),
                })
            }
            Answer::Refused(error) => Err(error.clone()),
        }
    }
}
