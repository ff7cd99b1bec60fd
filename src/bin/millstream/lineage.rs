//! `millstream explain --job`: names the records of one step of an exactly-once job, trainer by trainer.
//! Reads no element.

use millstream::control::{ExactlyOnce, IterationStatus, JobStatus, Status};
use millstream::exactly_once::{EpochLineage, Lineage, Place};
use millstream::functions;
use millstream::pipeline::graph::SplitCounts;

use crate::args::ExplainArgs;
use crate::asking;
use crate::console::{note, say};

/// The maximum number of records, and of trainers, that the command names.
const RECORDS_MAX: usize = 8;
const TRAINERS_MAX: u64 = 1024;

/// Runs the command for one step of a job.
pub(crate) fn run(args: &ExplainArgs, job: u64, step: u64) -> Result<(), String> {
    let service = asking::connect(&args.identity, &args.dispatcher)?;
    let status = service.status().map_err(|error| error.to_string())?;
    let found = job_of(&status, job)?;
    let once = found.parameters.exactly_once.as_ref().ok_or_else(|| {
        format!(
            "job {job} is not an exactly-once job, so its workers decide the batches of a step: \
             use visitation=\"exactly_once\""
        )
    })?;
    let iteration = epoch_of(&status, found)?;
    let dataset = &found.parameters.dataset;
    let graph = service.graph(dataset).map_err(|error| error.to_string())?;
    let lineage = EpochLineage::without_files(graph, functions::builtin(None), iteration.repetition);
    let counts = lineage.split_counts().map_err(|error| error.to_string())?;
    let counts = counts.ok_or_else(|| {
        format!(
            "a filter or the files decide how many batches each split of dataset {dataset} yields, so the records of a \
             step are unknown without reading: use `loader.lineage({step})` in a trainer"
        )
    })?;
    let lines = lines(&lineage, &counts, once, step)?;
    say(&format!(
        "step {step} of epoch {} of job {}: dataset {dataset}, seed {}, {} trainers",
        iteration.repetition, found.id.0, once.seed, once.step
    ));
    say(&lines.join("\n"));
    note("the answer holds for trainers that read in a fixed order, which is the default (in_order=True)");
    if once.first >= once.step {
        note(&format!(
            "the job began at split {}, in the middle of the epoch: the answer holds if the epoch had {} trainers from its \
             start",
            once.first, once.step
        ));
    }
    Ok(())
}

/// Returns the job with this id. Exactly-once jobs have no names that users choose.
fn job_of(status: &Status, wanted: u64) -> Result<&JobStatus, String> {
    let is_wanted = |job: &&JobStatus| job.id.0 == wanted;
    let found = status.jobs.iter().find(is_wanted);
    found.ok_or_else(|| {
        format!("no job has the id {wanted}: `millstream status` shows the jobs of the service")
    })
}

/// Returns the iteration of an exactly-once job, which has only one.
fn epoch_of<'s>(status: &'s Status, job: &JobStatus) -> Result<&'s IterationStatus, String> {
    let own = status.iterations.iter().find(|iteration| iteration.job == job.id);
    let own = own.ok_or_else(|| {
        let id = job.id.0;
        format!("job {id} has begun no epoch yet: ask again once its trainer has read a batch")
    })?;
    match own.skipped.is_empty() {
        true => Ok(own),
        false => Err(format!(
            "splits of job {} were skipped because they end their workers, so the records of later steps are unknown \
             here: use `loader.lineage` in a trainer",
            job.id.0
        )),
    }
}

/// Returns a line for each trainer.
fn lines(
    lineage: &EpochLineage,
    counts: &SplitCounts,
    once: &ExactlyOnce,
    step: u64,
) -> Result<Vec<String>, String> {
    let (start, trainers) = (Place::default(), once.step);
    // The last split may be larger than the others, so any trainer may have the most batches.
    let steps = |trainer| start.left(counts, trainer, trainers);
    let most = (0..trainers.min(TRAINERS_MAX))
        .map(steps)
        .max()
        .unwrap_or_default();
    if step >= most {
        return Err(format!(
            "--step {step}: the epoch has {most} steps, so the last step is {}",
            most.saturating_sub(1)
        ));
    }
    let mut lines = Vec::new();
    for trainer in 0..trainers.min(TRAINERS_MAX) {
        let text = match start.element_after(counts, (trainer, trainers), step) {
            Some((split, position)) => {
                described(&lineage.of(split, position).map_err(|error| error.to_string())?)
            }
            None => format!("no batch, because its epoch has {} steps", steps(trainer)),
        };
        lines.push(format!("trainer {trainer}: {text}"));
    }
    if trainers > TRAINERS_MAX {
        lines.push(format!("and {} more trainers", trainers - TRAINERS_MAX));
    }
    Ok(lines)
}

/// Returns the records of a batch in words.
fn described(found: &Lineage) -> String {
    let mut words = vec![format!("batch {} of split {}", found.position, found.split)];
    if let Some(records) = &found.records {
        let share = if found.is_exact { "" } else { "some of " };
        words.push(format!("{share}records {}", listed(records)));
    }
    words.join(", ")
}

/// Returns a few numbers as text, and many as a range or as the first ones.
fn listed(numbers: &[u64]) -> String {
    let is_range = numbers
        .windows(2)
        .all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    if let (true, [first, _, .., last]) = (is_range, numbers) {
        return format!("{first} to {last}");
    }
    let told: Vec<String> = numbers.iter().take(RECORDS_MAX).map(u64::to_string).collect();
    match numbers.len() > RECORDS_MAX {
        true => format!("{}, ... ({} in all)", told.join(", "), numbers.len()),
        false => told.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_named_briefly() {
        assert_eq!(listed(&[30, 31, 32]), "30 to 32");
        assert_eq!(listed(&[4, 5]), "4, 5");
        assert_eq!(listed(&[7, 2, 9]), "7, 2, 9");
        assert_eq!(
            listed(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 0]),
            "9, 1, 2, 3, 4, 5, 6, 7, ... (10 in all)"
        );
        assert_eq!(listed(&[]), "");
    }
}
