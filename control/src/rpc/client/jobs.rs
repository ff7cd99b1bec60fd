//! The jobs that this process asked for. A job that was collected because nobody read it is created again
//! (C3.8). A trainer may pause between two passes for as long as it likes.

use std::collections::BTreeMap;

use crate::id::JobId;
use crate::job::JobParameters;

/// Jobs remembered, the latest. Default reason: a process reads a few at a time, and each takes a few hundred
/// bytes here.
const JOBS_MAX: usize = 1024;

/// By the id that the process was given first, which it goes on using.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: BTreeMap<JobId, Known>,
}

/// The name and parameters of a job that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: Option<String>,
    pub(super) parameters: JobParameters,
    /// The id that it has now.
    pub(super) current: JobId,
}

impl Jobs {
    /// Notes what the dispatcher gave for a name and parameters.
    pub(super) fn note(&mut self, id: JobId, name: Option<String>, parameters: JobParameters) {
        let known = Known {
            name,
            parameters,
            current: id,
        };
        self.known.insert(id, known);
        while self.known.len() > JOBS_MAX {
            self.known.pop_first();
        }
    }

    /// Returns the name and parameters of a job, if this process asked for it.
    pub(super) fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// The id that a job has now.
    pub(super) fn current(&self, id: JobId) -> JobId {
        self.known.get(&id).map_or(id, |known| known.current)
    }

    /// Notes that a job has another id now.
    pub(super) fn renew(&mut self, id: JobId, current: JobId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.current = current;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::DatasetId;
    use crate::job::Policy;

    #[test]
    fn a_process_with_endless_jobs_remembers_the_latest() {
        let mut jobs = Jobs::default();
        let parameters = JobParameters::new(DatasetId::automatic(1000), Policy::Off);
        let last = JOBS_MAX as u64;
        for id in 0..=last {
            jobs.note(JobId(id), None, parameters.clone());
        }
        assert_eq!(jobs.get(JobId(0)), None);
        assert_eq!(jobs.known.len(), JOBS_MAX);
        jobs.renew(JobId(last), JobId(7000));
        assert_eq!(jobs.current(JobId(last)), JobId(7000));
        assert_eq!(jobs.current(JobId(0)), JobId(0), "as it was given");
    }
}
