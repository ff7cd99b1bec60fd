//! The work of pipelines as metrics for Prometheus: the stages of the running jobs.

use std::collections::BTreeMap;

use millstream_admin::Exposition;
use millstream_control::{IterationId, JobId, StageStatus, Stages, Status};

/// Maximum number of jobs with metrics of their stages: the running jobs with the highest ids.
const JOBS_MAX: usize = 20;

/// Adds the metrics of stages.
pub(super) fn stage_metrics(status: &Status, stages: &Stages, found: &mut Exposition) {
    let jobs: BTreeMap<IterationId, JobId> = status
        .iterations
        .iter()
        .map(|iteration| (iteration.id, iteration.job))
        .collect();
    // Later iterations replace earlier ones of the same job, whose stages are the same.
    let latest: BTreeMap<JobId, &Vec<StageStatus>> = stages
        .iter()
        .filter_map(|(iteration, stages)| Some((*jobs.get(iteration)?, stages)))
        .collect();
    type Read = fn(&StageStatus) -> f64;
    let gauges: [(&str, &str, Read); 3] = [
        (
            "job_stage_busy_threads",
            "Threads of all workers that the stage keeps busy.",
            |stage| stage.busy,
        ),
        (
            "job_stage_elements_per_second",
            "Elements that the stage yields in a second.",
            |stage| stage.elements_per_s,
        ),
        (
            "job_stage_waited_ratio",
            "Mean share of the time in which the next stage waits for this stage, from 0 to 1.",
            |stage| stage.waited,
        ),
    ];
    for (name, help, read) in gauges {
        for (job, stages) in latest.iter().rev().take(JOBS_MAX) {
            let job = job.to_string();
            // Stages are numbered from the source, so that the numbers say the order of the work.
            for (number, stage) in stages.iter().rev().enumerate() {
                let label = format!("{number} {}", operation(&stage.label));
                let labels = [("job_id", job.as_str()), ("stage", label.as_str())];
                found.gauge(name, help, &labels, read(stage));
            }
        }
    }
}

/// Returns the name of a stage's operation. Its parameters would be a new label for each pipeline.
fn operation(label: &str) -> &str {
    let end = label.find(|c: char| !c.is_alphanumeric() && c != '_');
    end.map_or(label, |end| &label[..end])
}

#[cfg(test)]
mod tests {
    use millstream_control::IterationStatus;

    use super::super::tests::{row, status};
    use super::*;

    fn stage(label: &str, busy: f64) -> StageStatus {
        StageStatus {
            label: label.to_owned(),
            busy,
            ..StageStatus::default()
        }
    }

    fn metrics(of: &[(u64, u64, Vec<StageStatus>)]) -> String {
        let rows = of.iter().map(|(iteration, job, _)| IterationStatus {
            id: IterationId(*iteration),
            job: JobId(*job),
            ..row(Vec::new(), Vec::new())
        });
        let status = status(rows.collect());
        let stages = of
            .iter()
            .map(|(iteration, _, stages)| (IterationId(*iteration), stages.clone()))
            .collect();
        let mut found = Exposition::new();
        stage_metrics(&status, &stages, &mut found);
        found.to_text()
    }

    #[test]
    fn stages_are_numbered_from_the_source() {
        let stages = vec![stage("map_python(decode)", 1.5), stage("files \"a b\"", 0.25)];
        let text = metrics(&[(4, 7, vec![stage("range", 9.0)]), (5, 7, stages)]);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("millstream_job_stage_busy"))
            .collect();
        assert_eq!(
            lines,
            [
                "millstream_job_stage_busy_threads{job_id=\"7\",stage=\"0 files\"} 0.25",
                "millstream_job_stage_busy_threads{job_id=\"7\",stage=\"1 map_python\"} 1.5",
            ]
        );
    }

    #[test]
    fn only_the_latest_jobs_have_stages() {
        let many: Vec<_> = (0..100).map(|id| (id, id, vec![stage("range", 1.0)])).collect();
        let text = metrics(&many);
        let busy = text
            .lines()
            .filter(|line| line.starts_with("millstream_job_stage_busy"));
        assert_eq!(busy.count(), JOBS_MAX);
        assert!(
            text.contains("{job_id=\"99\"") && !text.contains("{job_id=\"79\""),
            "{text}"
        );
    }
}
