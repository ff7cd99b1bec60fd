//! A trainer's request to read. Refuses to know how it is read.

use millstream_control::{Abandoned, DatasetId, JobParameters, Policy, TargetWorkers};

/// Dataset and settings of a read. Readers of one named job must request the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// A registered dataset.
    pub dataset: DatasetId,
    /// The way in which the dataset is dealt out to the workers.
    pub policy: Policy,
    /// Readers of one name share a job; `None` makes one of its own.
    pub job_name: Option<String>,
    /// The workers that readers take elements from.
    pub target_workers: TargetWorkers,
    /// The number of readers that advance in step; `None`: each at its own pace.
    pub num_consumers: Option<u32>,
    /// Whether trainers share what the workers keep of it.
    pub cross_trainer_cache: bool,
    /// The fate of a pass that all its readers have left before its end. `None`: it ends at once where the
    /// job has no name, since no other process knows of it; else it waits.
    pub abandoned: Option<Abandoned>,
    /// Whether the readers take elements in the order of their splits. The dispatcher then deals splits out
    /// so that no worker has an earlier one after a later one (C5.9).
    pub in_order: bool,
}

impl ReadRequest {
    /// A job of its own, from all workers that serve everybody.
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
        }
    }

    /// The job of this name. A name means one dataset: another cannot be read by it.
    #[must_use]
    pub fn named(mut self, job_name: impl Into<String>) -> Self {
        self.job_name = Some(job_name.into());
        self
    }

    /// The job that has this name among those of the dataset: `dataset_id=ID/NAME`, as
    /// `tf.data.experimental.service.from_dataset_id` has it. So readers of different datasets may use one
    /// name.
    #[must_use]
    pub fn named_in_dataset(self, job_name: &str) -> Self {
        // An empty name stays empty, so that it is refused.
        let name = if job_name.is_empty() {
            String::new()
        } else {
            format!("dataset_id={}/{job_name}", self.dataset)
        };
        self.named(name)
    }

    /// Has so many readers advance in step: in each step all of them take an element of the same group of one
    /// worker, consumer `i` the `i`-th. They read one job, so it has a name, and each says in its
    /// [`ReaderConfig`](millstream_client::ReaderConfig) which consumer it is.
    #[must_use]
    pub fn coordinated(mut self, num_consumers: u32) -> Self {
        self.num_consumers = Some(num_consumers);
        self
    }

    /// Reads from these workers.
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
            in_order: self.in_order,
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
