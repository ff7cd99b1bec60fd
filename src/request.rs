//! A trainer's request to read a dataset. Does not know how the dataset is read.

use millstream_control::{Abandoned, DatasetId, JobParameters, Policy, TargetWorkers};

use crate::exactly_once::ExactTerms;

/// The dataset and the settings of a job. All readers of a named job must request the same settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// The id of a registered dataset.
    pub dataset: DatasetId,
    /// The sharding policy, which distributes the dataset to the workers.
    pub policy: Policy,
    /// The name of the job, which readers with the same name share. `None` creates a private job.
    pub job_name: Option<String>,
    /// The workers that the job's readers read.
    pub target_workers: TargetWorkers,
    /// The number of consumers of a coordinated read, which advance in step. `None` lets each reader advance
    /// at its own pace.
    pub num_consumers: Option<u32>,
    /// `true` if trainers share the elements that workers keep in the cross-trainer cache.
    pub cross_trainer_cache: bool,
    /// The fate of a pass that all its readers have left before its end. With `None`, the pass of a job
    /// without a name ends at once, because no other process can read it; the pass of a named job waits.
    pub abandoned: Option<Abandoned>,
    /// `true` if the readers take elements in the order of their splits. The dispatcher then leases splits so
    /// that each worker gets them in ascending order (C5.9).
    pub in_order: bool,
    /// Set for a job that delivers each element exactly once, although workers are lost. The workers then run
    /// the dataset on each split alone.
    pub exactly_once: Option<ExactTerms>,
}

impl ReadRequest {
    /// Creates a request for a private job that reads all workers except those that serve only their own
    /// process.
    ///
    /// ```
    /// use millstream::control::{DatasetId, Policy};
    /// use millstream::ReadRequest;
    ///
    /// let dataset = DatasetId::new("photos")?;
    /// let request = ReadRequest::new(dataset, Policy::Dynamic).named("training");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(dataset: DatasetId, policy: Policy) -> Self {
        Self {
            dataset,
            policy,
            job_name: None,
            target_workers: TargetWorkers::Auto,
            num_consumers: None,
            cross_trainer_cache: false,
            abandoned: None,
            in_order: false,
            exactly_once: None,
        }
    }

    /// Sets the name of the job. All readers of a named job must read the same dataset.
    #[must_use]
    pub fn named(mut self, job_name: impl Into<String>) -> Self {
        self.job_name = Some(job_name.into());
        self
    }

    /// Sets a name that is unique to the dataset: `dataset_id=ID/NAME`, as in
    /// `tf.data.experimental.service.from_dataset_id`. Readers of different datasets may thus use the same
    /// `job_name`.
    #[must_use]
    pub fn named_in_dataset(self, job_name: &str) -> Self {
        // An empty name stays empty, so that the dispatcher refuses it.
        let name = if job_name.is_empty() {
            String::new()
        } else {
            format!("dataset_id={}/{job_name}", self.dataset)
        };
        self.named(name)
    }

    /// Makes `num_consumers` readers advance in step. In each step, every reader takes one element from the
    /// same group of one worker, and consumer `i` takes the `i`-th element. All readers end in the same step:
    /// each worker leaves out its last elements that fill no group. The readers share one job, so the job
    /// needs a name. Each reader sets its number in [`ReaderConfig`](millstream_client::ReaderConfig).
    #[must_use]
    pub fn coordinated(mut self, num_consumers: u32) -> Self {
        self.num_consumers = Some(num_consumers);
        self
    }

    /// Makes the job deliver each element exactly once. The order depends only on dataset, seed and epoch,
    /// unless the terms allow any order. The dataset must be registered in the form of
    /// [`Graph::for_exactly_once`](millstream_pipeline::graph::Graph::for_exactly_once), with the same seed.
    ///
    /// [`service_reader::dataset`](crate::service_reader::dataset) reads such a job: it restores the order,
    /// and drops repeated elements. A plain reader of the job receives the elements as workers send them.
    #[must_use]
    pub fn exactly_once(mut self, terms: ExactTerms) -> Self {
        self.policy = Policy::Dynamic;
        self.exactly_once = Some(terms);
        self
    }

    /// Sets the workers to read from.
    #[must_use]
    pub fn from_workers(mut self, target_workers: TargetWorkers) -> Self {
        self.target_workers = target_workers;
        self
    }

    /// Returns the parameters of the job, for the dispatcher.
    pub(crate) fn parameters(&self) -> JobParameters {
        JobParameters {
            target_workers: self.target_workers,
            num_consumers: self.num_consumers,
            cross_trainer_cache: self.cross_trainer_cache,
            abandoned: self.abandoned.unwrap_or(match self.job_name {
                Some(_) => Abandoned::Waits,
                None => Abandoned::Ends,
            }),
            in_order: self.in_order || self.exactly_once.is_some(),
            exactly_once: self.exactly_once.as_ref().map(|terms| terms.of_job(&terms.place)),
            ..JobParameters::new(self.dataset.clone(), self.policy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_no_name() {
        let request = || ReadRequest::new(DatasetId::new("photos").unwrap(), Policy::Off);
        let name = |request: ReadRequest| request.job_name.unwrap();
        assert_eq!(name(request().named_in_dataset("a")), "dataset_id=photos/a");
        assert_eq!(name(request().named_in_dataset("")), "");
    }
}
