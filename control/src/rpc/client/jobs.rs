//! The jobs that this process asked for. A job that was collected because no client read it is created
//! again (C3.8). A trainer may therefore pause between two epochs for any time.

use std::collections::BTreeMap;

use crate::id::JobId;
use crate::job::JobParameters;

/// Maximum number of remembered jobs, the latest ones. A process reads a few jobs at a time, and each job
/// takes a few hundred bytes here.
const JOBS_MAX: usize = 1024;

/// The known jobs, by their first id, which the process continues to use.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: BTreeMap<JobId, Known>,
}

/// The name and parameters of a job that this process asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: Option<String>,
    pub(super) parameters: JobParameters,
    /// The current id of the job at the dispatcher.
    pub(super) current: JobId,
}

impl Jobs {
    /// Notes the id that the dispatcher returned for a name and parameters.
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

    /// Returns the name and parameters of a job, if this process asked for the job.
    pub(super) fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// Returns the current id of a job at the dispatcher.
    pub(super) fn current(&self, id: JobId) -> JobId {
        self.known.get(&id).map_or(id, |known| known.current)
    }

    /// Notes that a job has a new id at the dispatcher.
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
        assert_eq!(jobs.current(JobId(0)), JobId(0), "an unknown job keeps its id");
    }
}
