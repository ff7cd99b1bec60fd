//! The verdicts on the dispatcher, its clock and its workers. Pure.

use std::time::Duration;

use super::super::facts::service::{ProgramFacts, ServiceAnswer, ServiceFacts, ServiceOutcome, WorkerFacts};
use super::super::finding::{Finding, Level};
use super::network::time_text;

/// The maximum number of workers that a finding names.
const NAMED_MAX: usize = 5;

/// The difference of two clocks from which on the times in logs are hard to compare.
const CLOCKS_WARNING: Duration = Duration::from_secs(2);
/// The difference of two clocks from which on signed requests may fail: S3 refuses them from a quarter of an
/// hour.
const CLOCKS_PROBLEM: Duration = Duration::from_secs(300);

/// Judges a service: the dispatcher, and if it answers, its clock, the workers and all versions.
pub(in super::super) fn service(facts: &ServiceFacts, own_version: &str) -> Vec<Finding> {
    let mut findings = vec![dispatcher(facts)];
    if let ServiceOutcome::Answered(answer) = &facts.outcome {
        findings.extend(answer.program.as_ref().map(clocks));
        findings.push(workers(answer));
        findings.push(versions(answer, own_version));
    }
    findings
}

fn dispatcher(facts: &ServiceFacts) -> Finding {
    const CHECK: &str = "dispatcher";
    const NAME_IT: &str = "Name the dispatcher with --dispatcher HOST:PORT to check a service.";
    let address = &facts.address;
    match &facts.outcome {
        ServiceOutcome::NoKey if facts.is_named => Finding::problem(
            CHECK,
            format!("the dispatcher at {address} cannot be asked without a key"),
            "Name the service's key with --key or MILLSTREAM_KEY.",
        ),
        ServiceOutcome::NoKey => Finding::new(
            CHECK,
            Level::Ok,
            "no dispatcher is named, and without a key none can be asked",
            NAME_IT,
        ),
        ServiceOutcome::DispatcherKey => Finding::new(
            CHECK,
            if facts.is_named { Level::Warning } else { Level::Ok },
            "a key of the role `dispatcher` cannot connect to a dispatcher, so the service is not checked",
            "Use a key of the role `read` or `submit`, or the cluster key, to check the service.",
        ),
        ServiceOutcome::Failed {
            reason,
            is_refused: true,
        } => Finding::problem(
            CHECK,
            format!("the connection to {address} fails: {reason}"),
            "Give this machine and the dispatcher keys from one cluster key, and compare their fingerprints with this command.",
        ),
        ServiceOutcome::Failed { reason, .. } if facts.is_named => Finding::problem(
            CHECK,
            format!("the connection to {address} fails: {reason}"),
            "Check that the dispatcher runs, that the address is right, and that firewalls let UDP to this port pass both ways.",
        ),
        ServiceOutcome::Failed { .. } => Finding::new(
            CHECK,
            Level::Ok,
            format!("no dispatcher is named, and none answers at {address}"),
            NAME_IT,
        ),
        ServiceOutcome::Silent { connect, reason } => Finding::warning(
            CHECK,
            format!(
                "QUIC to {address} works (connected in {}), but the dispatcher does not tell its status: {reason}",
                time_text(*connect)
            ),
            "Use a key of the role `read` or `submit`, or the cluster key, to check the workers.",
        ),
        ServiceOutcome::Answered(answer) => Finding::ok(
            CHECK,
            format!(
                "QUIC to {address} works: connected in {}, and a request takes {}",
                time_text(answer.connect),
                time_text(answer.round_trip)
            ),
        ),
    }
}

fn clocks(program: &ProgramFacts) -> Finding {
    const CHECK: &str = "clocks";
    const CURE: &str = "Run a time service such as chrony or systemd-timesyncd on both machines. \
                        Object stores refuse signed requests from machines with a wrong clock.";
    let difference = Duration::from_millis(program.clock_ahead_ms.unsigned_abs());
    let direction = if program.clock_ahead_ms < 0 {
        "behind"
    } else {
        "ahead of"
    };
    let found = format!(
        "the dispatcher's clock is {} {direction} the clock of this machine",
        time_text(difference)
    );
    if difference >= CLOCKS_PROBLEM {
        Finding::problem(CHECK, found, CURE)
    } else if difference >= CLOCKS_WARNING {
        Finding::warning(CHECK, found, CURE)
    } else {
        Finding::ok(CHECK, found)
    }
}

fn workers(answer: &ServiceAnswer) -> Finding {
    const CHECK: &str = "workers";
    let (dead, alive): (Vec<_>, Vec<_>) = answer.workers.iter().partition(|worker| worker.death.is_some());
    let draining = alive.iter().filter(|worker| worker.is_draining).count();
    let found = format!(
        "{} alive, {draining} of them draining, {} dead; {} readers",
        alive.len(),
        dead.len(),
        answer.clients
    );
    if alive.len() == draining {
        let level = if answer.clients > 0 {
            Level::Problem
        } else {
            Level::Warning
        };
        return Finding::new(
            CHECK,
            level,
            format!("{found}, so no worker takes new work{}", deaths(&dead)),
            "Start workers with `millstream worker --dispatcher HOST:PORT`, and look in their logs for the reason of their end.",
        );
    }
    if dead.is_empty() {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        format!("{found}{}", deaths(&dead)),
        "Look in the logs of the dead workers, and start them again if no supervisor does.",
    )
}

/// Names dead workers with the reasons of their deaths.
fn deaths(dead: &[&WorkerFacts]) -> String {
    let reason = |worker: &&WorkerFacts| {
        let reason = worker.death.as_deref().unwrap_or_default();
        format!("{}: {reason}", worker.address)
    };
    let named: Vec<String> = dead.iter().take(NAMED_MAX).map(reason).collect();
    listed(&named, dead.len())
}

fn versions(answer: &ServiceAnswer, own_version: &str) -> Finding {
    const CHECK: &str = "versions";
    let dispatcher = answer
        .program
        .as_ref()
        .map_or("unknown", |program| &program.version);
    let alive = answer.workers.iter().filter(|worker| worker.death.is_none());
    let workers = alive.map(|worker| (worker.address.as_str(), worker.version.as_str()));
    let all = std::iter::once(("dispatcher", dispatcher)).chain(workers);
    let other: Vec<_> = all.filter(|(_, version)| *version != own_version).collect();
    if other.is_empty() {
        return Finding::ok(
            CHECK,
            format!("this program, the dispatcher and all living workers have the version {own_version}"),
        );
    }
    let named: Vec<String> = other
        .iter()
        .take(NAMED_MAX)
        .map(|(name, version)| format!("{name}: {version}"))
        .collect();
    let processes = if other.len() == 1 {
        "one process has"
    } else {
        "other processes have"
    };
    Finding::warning(
        CHECK,
        format!(
            "this program has the version {own_version}, and {processes} another one{}",
            listed(&named, other.len())
        ),
        "Install one version on all machines, and restart the workers: SIGTERM drains them.",
    )
}

/// Writes a list in brackets, with the number of entries that are not named. An empty list has no text.
fn listed(named: &[String], all: usize) -> String {
    if named.is_empty() {
        return String::new();
    }
    let more = match all - named.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(" ({}{more})", named.join("; "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn worker(version: &str, death: Option<&str>, is_draining: bool) -> WorkerFacts {
        WorkerFacts {
            address: "10.0.0.2:7000".to_owned(),
            version: version.to_owned(),
            death: death.map(str::to_owned),
            is_draining,
        }
    }

    fn judged(is_named: bool, outcome: ServiceOutcome) -> Vec<Finding> {
        let address = "head:5050".to_owned();
        service(
            &ServiceFacts {
                address,
                is_named,
                outcome,
            },
            "0.1.0",
        )
    }

    fn answered(clients: u64, workers: Vec<WorkerFacts>) -> Vec<Finding> {
        answered_by("0.1.0", 0, clients, workers)
    }

    fn answered_by(
        version: &str,
        clock_ahead_ms: i64,
        clients: u64,
        workers: Vec<WorkerFacts>,
    ) -> Vec<Finding> {
        let program = ProgramFacts {
            version: version.to_owned(),
            clock_ahead_ms,
        };
        let time = Duration::from_micros(500);
        judged(
            true,
            ServiceOutcome::Answered(ServiceAnswer {
                connect: time,
                round_trip: time,
                program: Some(program),
                clients,
                workers,
            }),
        )
    }

    #[test]
    fn healthy_services_have_only_good_findings() {
        let findings = answered(1, vec![worker("0.1.0", None, false)]);
        assert!(
            findings.iter().all(|finding| finding.level == Level::Ok),
            "{findings:?}"
        );
        assert_eq!(findings.len(), 4);
        assert!(findings[0].found.contains("500 µs"), "{findings:?}");
    }

    #[test]
    fn unreachable_dispatchers_are_problems_if_named() {
        let failed = |is_refused| ServiceOutcome::Failed {
            reason: "no answer".to_owned(),
            is_refused,
        };
        let silent = || ServiceOutcome::Silent {
            connect: Duration::ZERO,
            reason: "denied".to_owned(),
        };
        for (is_named, outcome, level) in [
            (true, failed(false), Level::Problem),
            (false, failed(false), Level::Ok),
            (false, failed(true), Level::Problem),
            (true, ServiceOutcome::NoKey, Level::Problem),
            (false, ServiceOutcome::NoKey, Level::Ok),
            (true, silent(), Level::Warning),
            (true, ServiceOutcome::DispatcherKey, Level::Warning),
            (false, ServiceOutcome::DispatcherKey, Level::Ok),
        ] {
            let findings = judged(is_named, outcome);
            assert_eq!((findings.len(), findings[0].level), (1, level), "{findings:?}");
            assert!(!findings[0].cure.is_empty());
        }
    }

    #[test]
    fn dead_workers_are_named_with_the_reason() {
        let dead = || worker("0.1.0", Some("its port is closed"), false);
        let findings = answered(1, vec![worker("0.1.0", None, false), dead()]);
        assert_eq!(findings[2].level, Level::Warning);
        assert!(
            findings[2].found.contains("10.0.0.2:7000: its port is closed"),
            "{findings:?}"
        );
        assert_eq!(answered(1, vec![dead()])[2].level, Level::Problem);
        assert_eq!(
            answered(0, vec![worker("0.1.0", None, true)])[2].level,
            Level::Warning
        );
        let many = answered(1, std::iter::repeat_with(dead).take(9).collect());
        assert!(many[2].found.ends_with("; and 4 more)"), "{many:?}");
    }

    #[test]
    fn other_versions_are_a_warning() {
        let findings = answered(
            1,
            vec![worker("0.1.0", None, false), worker("0.0.9", None, false)],
        );
        assert_eq!(findings[3].level, Level::Warning);
        assert!(findings[3].found.contains("10.0.0.2:7000: 0.0.9"), "{findings:?}");
        let findings = answered_by("0.0.8", 0, 1, vec![worker("0.1.0", None, false)]);
        assert_eq!(findings[3].level, Level::Warning);
        assert!(findings[3].found.contains("dispatcher: 0.0.8"), "{findings:?}");
    }

    #[test]
    fn wrong_clocks_are_named() {
        for (ahead_ms, level, said) in [
            (1999, Level::Ok, "ahead of"),
            (2000, Level::Warning, "2.0 s ahead of the clock"),
            (-299_999, Level::Warning, "300.0 s behind"),
            (-300_000, Level::Problem, "300.0 s behind"),
        ] {
            let findings = answered_by("0.1.0", ahead_ms, 1, Vec::new());
            assert_eq!(findings[1].level, level, "{findings:?}");
            assert!(findings[1].found.contains(said), "{findings:?}");
        }
    }
}
