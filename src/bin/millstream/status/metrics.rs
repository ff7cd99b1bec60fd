//! The status of a service as gauges in the Prometheus text format. The number of gauges is fixed: no gauge
//! describes a single client or task.
//!
//! Autoscalers read the gauge `millstream_workers_wanted`, for example with the text file collector of a node
//! exporter.

use millstream::control::{IterationStatus, Status};

/// A gauge: its name, its help text, and the function that reads its value from a status. The function
/// returns `None` for an unknown value.
type Gauge = (&'static str, &'static str, fn(&Status) -> Option<f64>);

const GAUGES: [Gauge; 21] = [
    ("workers", "Workers that are alive.", |status| {
        Some(status.counts.workers as f64)
    }),
    (
        "workers_wanted",
        "Number of workers that would keep all readers busy, within limits.",
        |status| status.workers_wanted.map(|wanted| wanted as f64),
    ),
    ("workers_draining", "Workers in graceful shutdown.", |status| {
        let draining = status.workers.iter().filter(|worker| worker.draining);
        Some(draining.count() as f64)
    }),
    ("datasets", "Registered datasets.", |status| {
        Some(status.counts.datasets as f64)
    }),
    ("jobs", "Jobs.", |status| Some(status.counts.jobs as f64)),
    (
        "iterations",
        "Iterations, including finished iterations.",
        |status| Some(status.counts.iterations as f64),
    ),
    ("tasks", "Tasks of unfinished iterations.", |status| {
        Some(status.counts.tasks as f64)
    }),
    ("clients", "Clients.", |status| Some(status.counts.clients as f64)),
    (
        "elements_produced_per_second",
        "Elements that all tasks produce per second, recently.",
        |status| {
            Some(sum(status, |row| {
                row.tasks.iter().map(|task| task.elements_per_s).sum()
            }))
        },
    ),
    (
        "elements_read_per_second",
        "Elements that all users take per second, recently.",
        |status| {
            let read = |row: &IterationStatus| row.clients.iter().map(|client| client.elements_per_s).sum();
            Some(sum(status, read))
        },
    ),
    ("splits_leased", "Splits held by tasks.", |status| {
        Some(sum(status, |row| row.splits_leased as f64))
    }),
    ("splits_remaining", "Splits that are not leased yet.", |status| {
        Some(sum(status, |row| {
            row.sources.iter().map(|source| source.remaining as f64).sum()
        }))
    }),
    (
        "splits_lost",
        "Lost splits of all iterations that the dispatcher still has.",
        |status| Some(sum(status, |row| row.splits_lost as f64)),
    ),
    (
        "refused_handshakes_busy",
        "Handshakes refused because too many were in progress, since the dispatcher started.",
        |status| Some(status.refusals.handshakes_busy as f64),
    ),
    (
        "refused_handshakes_failed",
        "Handshakes that failed, since the dispatcher started.",
        |status| Some(status.refusals.handshakes_failed as f64),
    ),
    (
        "refused_handshakes_timed_out",
        "Handshakes that timed out, since the dispatcher started.",
        |status| Some(status.refusals.handshakes_timed_out as f64),
    ),
    (
        "refused_connections_over_quota",
        "Connections beyond a quota, since the dispatcher started.",
        |status| Some(status.refusals.connections_over_quota as f64),
    ),
    (
        "refused_sessions",
        "Connections refused for their session, since the dispatcher started.",
        |status| Some(status.refusals.sessions as f64),
    ),
    (
        "refused_requests_denied",
        "Requests that a role does not permit, since the dispatcher started.",
        |status| Some(status.refusals.requests_denied as f64),
    ),
    (
        "refused_requests_over_quota",
        "Requests beyond a quota, since the dispatcher started.",
        |status| Some(status.refusals.requests_over_quota as f64),
    ),
    (
        "refused_requests_delayed",
        "Requests delayed by the rate limit of their process, since the dispatcher started.",
        |status| Some(status.refusals.requests_delayed as f64),
    ),
];

/// Returns the lines of all gauges with a known value.
pub(super) fn lines(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, help, read) in GAUGES {
        if let Some(value) = read(status) {
            lines.push(format!("# HELP millstream_{name} {help}"));
            lines.push(format!("# TYPE millstream_{name} gauge"));
            lines.push(format!("millstream_{name} {value}"));
        }
    }
    lines
}

fn sum(status: &Status, of: impl Fn(&IterationStatus) -> f64) -> f64 {
    total(status.iterations.iter().map(of))
}

/// Returns the sum of values, or 0 without values. The standard library's sum without values is -0, which
/// would be printed.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_nothing_has_no_sign() {
        assert_eq!(total(std::iter::empty()).to_string(), "0");
        // An iteration without tasks has this sum.
        assert_eq!(
            total([std::iter::empty::<f64>().sum()].into_iter()).to_string(),
            "0"
        );
        assert_eq!(total([0.5, 1.0].into_iter()).to_string(), "1.5");
    }
}
