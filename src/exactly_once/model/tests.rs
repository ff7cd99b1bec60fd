//! The runs of the checker. Each test prints the number of states that the checker visits.

use std::collections::BTreeMap;

use millstream_pipeline::exec::SplitPart;
use stateright::{Checker, HasDiscoveries, Model};

use super::epoch::{ModelEpoch, Name};
use super::protocol::*;
use crate::exactly_once::place::Place;
use crate::exactly_once::sequence::{Numbered, Sequence};

/// Returns an epoch of one trainer over splits of these numbers of elements.
fn epoch(counts: &[u64]) -> ModelEpoch {
    ModelEpoch {
        counts: counts.to_vec(),
        first: 0,
        step: 1,
        begin: Place::default(),
    }
}

/// Visits every state of a model without a defect.
fn visit(epochs: Vec<ModelEpoch>, removals: u8, is_trainer_fast: bool) {
    let model = ExactModel {
        epochs,
        removals,
        restarts: 1,
        is_trainer_fast,
        defect: None,
    };
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!(
        "{} states, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    for name in [IN_ORDER, NO_ERROR, NO_LOSS, COMPLETE] {
        checker.assert_no_discovery(name);
    }
    assert!(checker.discovery(REPEATED).is_some() && checker.discovery(RESUMED).is_some());
}

/// Asserts that the checker finds a planted defect.
fn find(defect: Defect) {
    let model = ExactModel {
        epochs: vec![epoch(&[2, 1])],
        removals: 1,
        restarts: 1,
        is_trainer_fast: false,
        defect: Some(defect),
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let found = checker.discoveries();
    let failed = [IN_ORDER, NO_ERROR, NO_LOSS, COMPLETE]
        .into_iter()
        .find(|name| found.contains_key(name));
    let failed = failed.unwrap_or_else(|| panic!("{defect:?}: expected a failure, found none"));
    println!(
        "{defect:?}: not {failed:?} after {:?}",
        found[failed].clone().into_actions()
    );
}

#[test]
fn splits_without_elements_are_passed_over() {
    let plans = [[0, 0, 0], [0, 2, 0], [1, 0, 1]];
    visit(plans.iter().map(|counts| epoch(counts)).collect(), 1, true);
}

#[test]
fn full_splits_are_read_exactly_once() {
    visit(vec![epoch(&[2, 2, 2])], 1, true);
}

#[test]
fn slow_trainers_read_exactly_once() {
    visit(vec![epoch(&[2, 1])], 1, false);
}

#[test]
fn repeated_removals_lose_no_element() {
    visit(vec![epoch(&[2])], 2, true);
}

#[test]
fn joined_places_continue_exactly_once() {
    let places = [(2, BTreeMap::from([(2, 1)])), (1, BTreeMap::new())];
    let places = places.map(|(split, had)| Place { split, had });
    let begin = Place::joined(&places);
    visit(
        vec![ModelEpoch {
            counts: vec![1, 2, 2, 1],
            first: 0,
            step: 1,
            begin,
        }],
        1,
        true,
    );
}

#[test]
fn trainers_with_own_splits_read_them_once() {
    visit(
        vec![ModelEpoch {
            first: 1,
            step: 2,
            ..epoch(&[0, 2, 1, 1])
        }],
        1,
        true,
    );
}

/// Returns the positions of a trainer after each number of elements.
fn places_of(counts: &[u64], first: u64, step: u64) -> Vec<Place> {
    let epoch = ModelEpoch {
        first,
        step,
        ..epoch(counts)
    };
    let mut sequence: Sequence<Name> = epoch.open(&epoch.begin).1;
    let mut places = vec![sequence.place()];
    for (split, position) in epoch.plan() {
        let is_last = position + 1 == counts[split as usize];
        let accepted = sequence.accept(Numbered {
            split,
            position,
            part: if is_last {
                SplitPart::Last
            } else {
                SplitPart::Inner
            },
            element: (split, position),
        });
        assert_eq!((accepted, sequence.next()), (Ok(true), Some((split, position))));
        places.push(sequence.place());
    }
    places
}

/// Returns the epochs of one or two trainers that continue from any pair of positions of two trainers.
///
/// Each trainer has a job of its own (C16.2), and a worker that dies removes one task of each job. The states
/// of two trainers are therefore the pairs of their states, and a joined position depends only on the pair.
fn after_two_readers(counts: &[u64]) -> Vec<ModelEpoch> {
    let (own, other) = (places_of(counts, 0, 2), places_of(counts, 1, 2));
    let pairs = own
        .iter()
        .flat_map(|own| other.iter().map(move |other| [own.clone(), other.clone()]));
    let continued = |places: [Place; 2]| {
        let begin = Place::joined(&places);
        [(0, 1), (0, 2), (1, 2)].map(|(first, step)| ModelEpoch {
            counts: counts.to_vec(),
            first,
            step,
            begin: begin.clone(),
        })
    };
    pairs.flat_map(continued).collect()
}

#[test]
fn pairs_of_readers_continue_exactly_once() {
    visit(after_two_readers(&[2, 1, 1]), 1, true);
}

/// Visits every state of two workers and two readers of three splits, with a crash of each of them.
#[test]
#[ignore = "visits millions of states"]
fn everybody_may_crash_once() {
    visit(after_two_readers(&[2, 1, 1]), 2, true);
}

#[test]
fn checker_finds_each_planted_defect() {
    for defect in [
        Defect::SeenPartNotFreed,
        Defect::PartNamedComplete,
        Defect::EndBeforeFreeSplit,
        Defect::AttemptBeginsLate,
        Defect::RepeatedHandedOut,
        Defect::RemovedTaskUncounted,
        Defect::PlaceOneTooMany,
        Defect::PlaceCountsWaiting,
    ] {
        find(defect);
    }
}
