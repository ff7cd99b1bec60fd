//! The status of a service as metrics for Prometheus. No metric describes a single client or task, so the
//! number of samples is bounded.

use millstream_admin::Exposition;
use millstream_control::{Refusals, Status};

use super::sums::{JobSums, running_jobs};

/// Returns the metrics that every process has.
pub(super) fn process_metrics() -> Exposition {
    let mut found = Exposition::new();
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    found.gauge("build_info", "The version of the program.", &labels, 1.0);
    found
}

/// Adds the metrics of a service.
pub fn service_metrics(status: &Status, found: &mut Exposition) {
    let counts = status.counts;
    let name = "dispatcher_workers";
    for (state, count) in worker_states(status) {
        found.gauge(name, "Workers by state.", &[("state", state)], count as f64);
    }
    if let Some(wanted) = status.workers_wanted {
        let help = "Number of workers that the service wants. Scale the number of workers by it.";
        found.gauge("dispatcher_workers_wanted", help, &[], wanted as f64);
    }
    if let Some(estimate) = status.workers_estimated {
        let help = "Estimated number of workers that would keep all readers busy at the present pace.";
        found.gauge("dispatcher_workers_estimated", help, &[], estimate as f64);
    }
    for (name, help, value) in [
        ("dispatcher_datasets", "Registered datasets.", counts.datasets),
        ("dispatcher_jobs", "Jobs.", counts.jobs),
        (
            "dispatcher_iterations",
            "Iterations, including finished iterations.",
            counts.iterations,
        ),
        (
            "dispatcher_tasks",
            "Tasks of unfinished iterations.",
            counts.tasks,
        ),
        ("dispatcher_clients", "Clients.", counts.clients),
    ] {
        found.gauge(name, help, &[], value as f64);
    }
    for (reason, count) in refusals(&status.refusals) {
        let help = "Connections and requests that were refused, by reason.";
        found.counter(
            "dispatcher_refusals_total",
            help,
            &[("reason", reason)],
            count as f64,
        );
    }
    jobs(status, found);
}

fn worker_states(status: &Status) -> [(&'static str, usize); 3] {
    let count = |is: fn(bool, bool) -> bool| {
        let states = status
            .workers
            .iter()
            .map(|worker| (worker.dead.is_some(), worker.draining));
        states.filter(|(dead, draining)| is(*dead, *draining)).count()
    };
    [
        ("alive", count(|dead, draining| !dead && !draining)),
        ("draining", count(|dead, draining| !dead && draining)),
        ("dead", count(|dead, _| dead)),
    ]
}

fn refusals(refusals: &Refusals) -> [(&'static str, u64); 8] {
    [
        ("handshake_busy", refusals.handshakes_busy),
        ("handshake_failed", refusals.handshakes_failed),
        ("handshake_timed_out", refusals.handshakes_timed_out),
        ("connection_over_quota", refusals.connections_over_quota),
        ("session", refusals.sessions),
        ("request_denied", refusals.requests_denied),
        ("request_over_quota", refusals.requests_over_quota),
        ("request_delayed", refusals.requests_delayed),
    ]
}

/// Adds the metrics of running jobs.
fn jobs(status: &Status, found: &mut Exposition) {
    let jobs = running_jobs(status).into_iter();
    let jobs: Vec<(String, JobSums)> = jobs.map(|(job, sums)| (job.to_string(), sums)).collect();
    type Read = fn(&JobSums) -> Option<f64>;
    let gauges: [(&str, &str, Read); 4] = [
        ("job_clients", "Readers of the job.", |sums| {
            Some(sums.clients as f64)
        }),
        (
            "job_elements_produced_per_second",
            "Elements that all tasks of the job produce per second, recently.",
            |sums| Some(sums.produced_per_s),
        ),
        (
            "job_elements_read_per_second",
            "Elements that all users of the job take per second, recently.",
            |sums| Some(sums.read_per_s),
        ),
        (
            "job_stall_ratio",
            "Largest share of a trainer's recent time in which it waits for data, from 0 to 1.",
            |sums| sums.waiting,
        ),
    ];
    for (name, help, read) in gauges {
        for (job, sums) in &jobs {
            if let Some(value) = read(sums) {
                found.gauge(name, help, &[("job_id", job)], value);
            }
        }
    }
    for (job, sums) in &jobs {
        let states = [
            ("remaining", sums.remaining),
            ("leased", sums.leased),
            ("done", sums.done),
            ("lost", sums.lost),
        ];
        for (state, splits) in states {
            let labels = [("job_id", job.as_str()), ("state", state)];
            found.gauge(
                "job_splits",
                "Splits of the job's running epochs, by state.",
                &labels,
                splits as f64,
            );
        }
    }
}
