//! The result of one check: its level, the facts with figures, and the cure. Pure.

use std::time::Duration;

use serde_json::{Value, json};

/// The urgency of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Nothing has to be done.
    Ok,
    /// The service works, but slower or with fewer features than possible.
    Warning,
    /// The service cannot work.
    Problem,
}

impl Level {
    /// Returns the word for the level in tables and in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    /// The urgency.
    pub(super) level: Level,
    /// The facts, with their figures.
    pub(super) found: String,
    /// The remedy in one sentence; empty if nothing has to be done.
    pub(super) cure: String,
}

impl Finding {
    /// Makes a finding of a check that found no fault.
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(check, Level::Ok, found, "")
    }

    /// Makes a finding of a fault with which the service still works.
    pub(super) fn warning(check: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Finding {
        Finding::new(check, Level::Warning, found, cure)
    }

    /// Makes a finding of a fault with which the service does not work.
    pub(super) fn problem(check: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Finding {
        Finding::new(check, Level::Problem, found, cure)
    }

    /// Makes a finding with a level that the caller chooses.
    pub(super) fn new(
        check: &'static str,
        level: Level,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding {
            check,
            level,
            found: found.into(),
            cure: cure.into(),
        }
    }

    /// Makes the finding of a check without an answer.
    pub(super) fn unanswered(check: &'static str, limit: Duration) -> Finding {
        Finding::problem(
            check,
            format!("the check gave no answer within {:.0} s", limit.as_secs_f64()),
            "Run the command again; if the check hangs again, look for a file system or a network that does not answer.",
        )
    }

    /// Returns the lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let first = format!("{:<8} {:<14} {}", self.level.name(), self.check, self.found);
        let cure = (!self.cure.is_empty()).then(|| format!("{:24}-> {}", "", self.cure));
        std::iter::once(first).chain(cure).collect()
    }

    /// Returns the object for programs.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "check": self.check,
            "level": self.level.name(),
            "found": self.found,
            "cure": self.cure,
        })
    }
}

/// Returns the last line for people, with the number of findings of each level.
pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |level, noun: &str| {
        let count = findings.iter().filter(|finding| finding.level == level).count();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {noun}{plural}")
    };
    let all = findings.len();
    let (warnings, problems) = (count(Level::Warning, "warning"), count(Level::Problem, "problem"));
    format!("{all} checks: {warnings}, {problems}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_get_the_same_finding() {
        let finding = Finding::warning("mtu", "1300 bytes", "Raise it.");
        assert_eq!(
            finding.lines(),
            [
                "warning  mtu            1300 bytes",
                &format!("{:24}-> Raise it.", "")
            ]
        );
        assert_eq!(
            finding.to_json(),
            json!({"check": "mtu", "level": "warning", "found": "1300 bytes", "cure": "Raise it."})
        );
        let all = [finding, Finding::ok("udp", "fast")];
        assert_eq!(all[1].lines().len(), 1);
        assert_eq!(summary(&all), "2 checks: 1 warning, 0 problems");
    }
}
