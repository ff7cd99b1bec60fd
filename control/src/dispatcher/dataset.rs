//! Datasets and jobs: registered once, found again by id or name.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use super::action::Reply;
use super::addresses::NAME_BYTES_MAX;
use super::caching::check_cache;
use super::machine::Dispatcher;
use super::order::check_order;
use super::outcome::Outcome;
use super::record::{Answer, DatasetRecord, JobRecord, QuotaOwner};
use crate::error::Error;
use crate::id::{DatasetId, JobId, SessionId};
use crate::job::{JobParameters, Policy};
use crate::planner::DatasetFacts;

impl Dispatcher {
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
                "the dataset's definition has {found} bytes, more than {limit}: keep data out of it, in files"
            )));
        }
        if let Some(id) = &id
            && let Some(existing) = self.tables.datasets.get(id)
        {
            same_dataset(existing, &facts)?;
            self.clocks.datasets_used.insert(id.clone(), self.now);
            return Ok(Outcome::Answer(Answer::Dataset(id.clone())));
        }
        if self.tables.datasets.len() >= self.config.datasets_max && !self.make_room_for_dataset() {
            let limit = self.config.datasets_max;
            return Err(Error::exhausted(format!(
                "this dispatcher has {limit} datasets, all used by jobs or lately asked for, and takes no more"
            )));
        }
        let owner = id.is_none().then_some(session);
        let id = id.unwrap_or_else(|| self.next_dataset_id());
        let record = DatasetRecord {
            id: id.clone(),
            definition: definition.into(),
            facts,
            owner,
        };
        self.tables.datasets.insert(id.clone(), Arc::new(record));
        self.clocks.datasets_used.insert(id.clone(), self.now);
        Ok(Outcome::Answer(Answer::Dataset(id)))
    }

    pub(super) fn describe_dataset(&mut self, id: &DatasetId) -> Result<Outcome, Error> {
        let record = Arc::clone(self.dataset(id)?);
        self.clocks.datasets_used.insert(id.clone(), self.now);
        Ok(Outcome::Reply(Reply::DatasetInfo(record)))
    }

    /// C2.6
    pub(super) fn read_definition(&mut self, id: &DatasetId) -> Result<Outcome, Error> {
        let record = Arc::clone(self.dataset(id)?);
        self.clocks.datasets_used.insert(id.clone(), self.now);
        Ok(Outcome::Reply(Reply::Definition(record)))
    }

    pub(super) fn create_job(
        &mut self,
        owner: QuotaOwner,
        name: Option<String>,
        parameters: JobParameters,
    ) -> Result<Outcome, Error> {
        // C14.4
        let parameters = parameters.deployed(self.config.deployment_mode);
        if let Some(name) = &name {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a job's name has 1 to {NAME_BYTES_MAX} bytes"
                )));
            }
            if let Some(existing) = self.job_named(name) {
                let id = same_job(existing, &self.in_terms_of(existing, parameters))?;
                self.clocks.jobs_used.insert(id, self.now);
                return Ok(Outcome::Answer(Answer::Job(id)));
            }
        }
        let dataset = self.dataset(&parameters.dataset)?;
        // C2.4
        if let (Policy::Dynamic, Err(reason)) = (parameters.policy, &dataset.facts.splittable) {
            return Err(Error::unimplemented(format!(
                "dataset {} cannot be read under the sharding policy `dynamic`: {reason}",
                dataset.id
            )));
        }
        self.check_sharding(parameters.policy, dataset)?;
        check_cache(name.as_deref(), &parameters, dataset)?;
        check_order(&parameters)?;
        self.check_consumers(&parameters, dataset)?;
        self.check_jobs(owner)?;
        let id = self.tables.meta().next_job;
        let name = name.unwrap_or_else(|| format!("anonymous_job_{id}_{:016x}", self.boot().0));
        self.tables.meta_mut().next_job = JobId(id.0 + 1);
        self.tables.insert_job(JobRecord {
            id,
            name,
            parameters,
            owner: Some(owner),
        });
        self.clocks.jobs_used.insert(id, self.now);
        Ok(Outcome::Answer(Answer::Job(id)))
    }

    pub(super) fn dataset(&self, id: &DatasetId) -> Result<&Arc<DatasetRecord>, Error> {
        self.tables.datasets.get(id).ok_or_else(|| {
            Error::not_found(format!(
                "there is no dataset {id}: it must be registered first, or nobody used it for long"
            ))
        })
    }

    pub(super) fn job(&self, id: JobId) -> Result<&JobRecord, Error> {
        self.tables.jobs.get(&id).ok_or_else(|| {
            Error::not_found(format!(
                "there is no job {id}: nobody read it for a while, or it never was; ask for it again"
            ))
        })
    }

    fn job_named(&self, name: &str) -> Option<&JobRecord> {
        let id = self.tables.index.job_of_name.get(name)?;
        self.tables.jobs.get(id)
    }

    /// C2.3: trainers that run one program register its dataset each under an id of its own; of one definition they are one dataset.
    fn in_terms_of(&self, existing: &JobRecord, wanted: JobParameters) -> JobParameters {
        let dataset = |id| self.tables.datasets.get(id);
        let before = dataset(&existing.parameters.dataset);
        let now = dataset(&wanted.dataset);
        let is_same = before
            .zip(now)
            .is_some_and(|(before, now)| before.definition == now.definition && before.facts == now.facts);
        JobParameters {
            dataset: if is_same {
                existing.parameters.dataset.clone()
            } else {
                wanted.dataset
            },
            ..wanted
        }
    }

    /// C2.1: the next decimal number that nobody took as an explicit id.
    fn next_dataset_id(&mut self) -> DatasetId {
        let mut number = self.tables.meta().next_dataset;
        while self.tables.datasets.contains(&DatasetId::automatic(number)) {
            number += 1;
        }
        self.tables.meta_mut().next_dataset = number + 1;
        DatasetId::automatic(number)
    }
}

/// C2.2: one id means one structure. Definitions are not compared: the first stays.
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

/// C2.3: one name means one job.
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
