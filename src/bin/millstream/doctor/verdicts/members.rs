//! The verdict on several dispatchers of one service. Pure.

use super::super::facts::members::{MemberFacts, MemberState};
use super::super::finding::Finding;

/// Judges several dispatchers. Returns nothing for a service with one dispatcher.
pub(in super::super) fn members(facts: &[MemberFacts]) -> Option<Finding> {
    const CHECK: &str = "members";
    if facts.is_empty() {
        return None;
    }
    let of = |wanted: MemberState| {
        let names = facts.iter().filter(|member| member.state == wanted);
        names.map(|member| member.address.as_str()).collect::<Vec<_>>()
    };
    let (leading, standing) = (of(MemberState::Leads), of(MemberState::StandsBy));
    let failed: Vec<String> = facts
        .iter()
        .filter_map(|member| match &member.state {
            MemberState::Failed(reason) => Some(format!("{}: {reason}", member.address)),
            MemberState::Leads | MemberState::StandsBy => None,
        })
        .collect();
    let mut found = format!(
        "{} leads, {} of {} dispatchers stand by",
        if leading.is_empty() {
            "none".to_owned()
        } else {
            leading.join(" and ")
        },
        standing.len(),
        facts.len()
    );
    if !failed.is_empty() {
        found += &format!(", and {} do not answer ({})", failed.len(), failed.join("; "));
    }
    Some(match leading.len() {
        1 if failed.is_empty() => Finding::ok(CHECK, found),
        1 => Finding::warning(
            CHECK,
            found,
            "Start the dispatchers that do not answer: none of them can take the place of the leader.",
        ),
        0 if standing.is_empty() => Finding::problem(
            CHECK,
            found,
            "Check that the dispatchers run, that this machine has a key of their cluster, and that UDP reaches them.",
        ),
        0 => Finding::problem(
            CHECK,
            found,
            "Check that etcd answers and that the dispatchers run: one of them should lead within seconds.",
        ),
        _ => Finding::problem(
            CHECK,
            found,
            "Name dispatchers of one service only: dispatchers that share a store have one leader.",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Level;
    use super::*;

    fn judged(states: &[MemberState]) -> Option<Finding> {
        let members: Vec<MemberFacts> = states
            .iter()
            .zip(1..)
            .map(|(state, number)| MemberFacts {
                address: format!("node{number}:5050"),
                state: state.clone(),
            })
            .collect();
        super::members(&members)
    }

    #[test]
    fn one_dispatcher_should_lead() {
        use MemberState::{Leads, StandsBy};
        let failed = || MemberState::Failed("no answer".to_owned());
        for (states, level, said) in [
            (
                vec![StandsBy, Leads, StandsBy],
                Level::Ok,
                "node2:5050 leads, 2 of 3 dispatchers stand by",
            ),
            (
                vec![Leads, failed(), StandsBy],
                Level::Warning,
                "node2:5050: no answer",
            ),
            (
                vec![StandsBy, failed()],
                Level::Problem,
                "none leads, 1 of 2 dispatchers stand by, and 1 do not answer (node2:5050: no answer)",
            ),
            (
                vec![failed(), failed()],
                Level::Problem,
                "node1:5050: no answer; node2",
            ),
            (
                vec![Leads, Leads],
                Level::Problem,
                "node1:5050 and node2:5050 leads",
            ),
        ] {
            let finding = judged(&states).expect("a finding");
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.found.contains(said), "{finding:?}");
        }
        assert_eq!(judged(&[]), None);
    }
}
