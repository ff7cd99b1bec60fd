//! Datasets and jobs, which are registered once and found again by id or name.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::Reply;
use super::addresses::NAME_BYTES_MAX;
use super::caching::check_cache;
use super::coordination::check_consumers;
use super::exactness::check_exactly_once;
use super::happened::ServiceEventKind;
use super::order::check_order;
use super::outcome::Outcome;
use super::record::{Answer, DatasetRecord, JobRecord, QuotaOwner};
use super::sharding::check_sharding;
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{DatasetId, JobId, SessionId};
use crate::job::{JobParameters, Policy};
use crate::planner::DatasetFacts;

impl ServiceState {
    pub(super) fn register_dataset(
        &mut self,
        session: SessionId,
        id: Option<DatasetId>,
        definition: Vec<u8>,
        facts: DatasetFacts,
    ) -> Result<Outcome, Error> {
        let limit = self.config.definition_bytes_max;
        if definition.len() > limit {
            let found = definition.len();
            return Err(Error::invalid(format!(
                "the dataset's definition has {found} bytes, more than the limit of {limit}: move its data \
                into files"
            )));
        }
        if let Some(id) = &id
            && let Some(existing) = self.tables.catalog.find_dataset(id)
        {
            same_dataset(existing, &facts)?;
            self.tables.catalog.use_dataset(id, self.now)?;
            return Ok(Outcome::Answer(Answer::Dataset(id.clone())));
        }
        if self.tables.catalog.dataset_count() >= self.config.datasets_max && !self.make_room_for_dataset() {
            let limit = self.config.datasets_max;
            return Err(Error::exhausted(format!(
                "this dispatcher has {limit} datasets, the most it may have, and all are used by jobs or \
                were lately requested"
            )));
        }
        let owner = id.is_none().then_some(session);
        let id = id.unwrap_or_else(|| self.tables.next_dataset_id());
        let record = DatasetRecord {
            id: id.clone(),
            definition: definition.into(),
            facts,
            owner,
        };
        self.tables.catalog.insert_dataset(record, self.now);
        Ok(Outcome::Answer(Answer::Dataset(id)))
    }

    /// Forgets the dataset that was idle for longest (C2.5). Returns false if no dataset was idle for long
    /// enough.
    fn make_room_for_dataset(&mut self) -> bool {
        let timeout = self.config.dataset_gc_timeout;
        timeout.is_some_and(|timeout| self.tables.catalog.make_room_for_dataset(self.now, timeout))
    }

    pub(super) fn describe_dataset(&mut self, id: &DatasetId) -> Result<Outcome, Error> {
        let record = self.tables.catalog.use_dataset(id, self.now)?;
        Ok(Outcome::Reply(Reply::DatasetInfo(record)))
    }

    /// Reading a definition counts as describing the dataset, and restarts the dataset's idle time (C2.6).
    pub(super) fn read_definition(&mut self, id: &DatasetId) -> Result<Outcome, Error> {
        let record = self.tables.catalog.use_dataset(id, self.now)?;
        Ok(Outcome::Reply(Reply::Definition(record)))
    }

    pub(super) fn create_job(
        &mut self,
        owner: QuotaOwner,
        name: Option<String>,
        parameters: JobParameters,
    ) -> Result<Outcome, Error> {
        // The deployment mode decides what target workers `auto` means (C14.4).
        let parameters = parameters.deployed(self.config.deployment_mode);
        check_exactly_once(name.as_deref(), &parameters)?;
        if let Some(name) = &name {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a job's name has 1 to {NAME_BYTES_MAX} bytes"
                )));
            }
            if let Some(existing) = self.tables.catalog.job_named(name) {
                let id = same_job(existing, &self.tables.catalog.in_terms_of(existing, parameters))?;
                self.tables.catalog.use_job(id, self.now);
                return Ok(Outcome::Answer(Answer::Job(id)));
            }
        }
        let dataset = self.tables.catalog.dataset(&parameters.dataset)?;
        // Only a dataset that can be split may be read under `dynamic` (C2.4).
        if let (Policy::Dynamic, Err(reason)) = (parameters.policy, &dataset.facts.splittable) {
            return Err(Error::unimplemented(format!(
                "dataset {} cannot be read under the sharding policy `dynamic`: {reason}",
                dataset.id
            )));
        }
        check_sharding(parameters.policy, dataset, &self.config.worker_addresses)?;
        check_cache(name.as_deref(), &parameters, dataset)?;
        check_order(&parameters)?;
        check_consumers(&parameters, self.config.consumers_max)?;
        self.check_jobs(owner)?;
        let id = self.tables.meta().next_job;
        let name = name.unwrap_or_else(|| format!("anonymous_job_{id}_{:016x}", self.boot().0));
        self.tables.meta_mut().next_job = JobId(id.0 + 1);
        let (dataset, policy) = (&parameters.dataset, parameters.policy);
        let text =
            format!("Job {id} ({name}) was created: it reads dataset {dataset} under the policy {policy}.");
        self.tell_of_job(ServiceEventKind::JobCreated, id, text);
        self.tables.catalog.insert_job(
            JobRecord {
                id,
                name,
                parameters,
                owner: Some(owner),
            },
            self.now,
        );
        Ok(Outcome::Answer(Answer::Job(id)))
    }
}

impl Tables {
    /// Returns the next decimal number that no process took as an explicit id (C2.1).
    fn next_dataset_id(&mut self) -> DatasetId {
        let mut number = self.meta().next_dataset;
        while self.catalog.find_dataset(&DatasetId::automatic(number)).is_some() {
            number += 1;
        }
        self.meta_mut().next_dataset = number + 1;
        DatasetId::automatic(number)
    }
}

/// Checks that a dataset has the same structure as the registered dataset of its id (C2.2). The definitions
/// are not compared: the first definition stays.
fn same_dataset(existing: &DatasetRecord, facts: &DatasetFacts) -> Result<(), Error> {
    let mut differences = Vec::new();
    if existing.facts.spec != facts.spec {
        differences.push("the element specification differs".to_owned());
    }
    if existing.facts.cardinality != facts.cardinality {
        differences.push(format!(
            "the cardinality is {}, not {}",
            existing.facts.cardinality, facts.cardinality
        ));
    }
    if existing.facts.splittable.is_ok() != facts.splittable.is_ok() {
        differences.push("only one of the two can be split".to_owned());
    }
    if existing.facts.aligned.is_ok() != facts.aligned.is_ok() {
        differences.push("only one of the two keeps positions aligned".to_owned());
    }
    if existing.facts.compression != facts.compression {
        let name = |compression: &Option<String>| {
            compression
                .clone()
                .unwrap_or_else(|| "as workers are set".to_owned())
        };
        let (before, now) = (name(&existing.facts.compression), name(&facts.compression));
        differences.push(format!("the compression is {before}, not {now}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "dataset {} is registered already, and this one is different: {}; choose another id",
        existing.id,
        differences.join("; ")
    )))
}

/// Checks that a job has the same parameters as the existing job of its name (C2.3).
fn same_job(existing: &JobRecord, wanted: &JobParameters) -> Result<JobId, Error> {
    let differences = existing.parameters.differences(wanted);
    if differences.is_empty() {
        return Ok(existing.id);
    }
    Err(Error::invalid(format!(
        "the job {:?} exists already and is different: {}; choose another name",
        existing.name,
        differences.join("; ")
    )))
}
