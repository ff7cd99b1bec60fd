//! The decision about an element that failed: another attempt, its quarantine, or the end of the pass.
//!
//! The state machine is pure: the caller opens jobs, and reports each failure with its position. A job
//! leaves the quarantined elements out in all attempts at a split, so that the elements after them keep their
//! numbers in the split.

use std::collections::BTreeMap;

use millstream_control::{ExactlyOnce, QuarantinedElement};
use millstream_dataplane::proto::message::FailedElement;
use minicbor::{Decode, Encode};

/// The maximum number of failures in one pass. Each of them costs a new job.
const FAILURES_MAX: u32 = 4096;

/// The limits on failed elements, and the elements that earlier readers of the epoch have quarantined.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct QuarantineTerms {
    /// The number of elements that a pass may leave out before a failure ends it, at most
    /// [`ExactlyOnce::QUARANTINED_MAX`].
    #[n(0)]
    pub max_elements: u32,
    /// The number of failures after which an element is left out, at least 1.
    #[n(1)]
    pub max_failures: u32,
    /// The elements that belong to the position at which the first pass begins.
    #[n(2)]
    pub elements: Vec<QuarantinedElement>,
}

/// The failed elements of one pass.
#[derive(Debug)]
pub(super) struct Quarantine {
    terms: QuarantineTerms,
    /// The number of this trainer, and the number of trainers.
    own: (u64, u64),
    /// The number of quarantined elements that the trainer misses. Elements of finished splits do not count.
    missed: u64,
    /// The number of failures of each element that is not quarantined.
    failures: BTreeMap<QuarantinedElement, u32>,
    failures_in_all: u32,
}

/// The decision after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Another job computes the element again.
    Retry {
        /// The number of failures of the element so far.
        failures: u32,
    },
    /// Another job leaves the element out.
    LeaveOut {
        /// The number of elements that the pass leaves out, with this element.
        quarantined: u64,
    },
    /// Another job leaves the element out, of whose split the trainers have all elements already.
    LeaveOutAgain,
    /// The failure ends the pass. The text names the reason.
    Fail(String),
}

impl Quarantine {
    /// Returns the state at the begin of a pass of trainer `trainer` of `trainers`. Elements of the other
    /// trainers' splits are dropped.
    pub(super) fn new(terms: QuarantineTerms, own: (u64, u64)) -> Quarantine {
        let mut quarantine = Quarantine {
            terms,
            own,
            missed: 0,
            failures: BTreeMap::new(),
            failures_in_all: 0,
        };
        let elements = std::mem::take(&mut quarantine.terms.elements);
        quarantine.begin_with(elements);
        quarantine
    }

    /// Returns the terms of the next job.
    pub(super) fn terms(&self) -> &QuarantineTerms {
        &self.terms
    }

    /// Continues at a position with these elements.
    pub(super) fn begin_with(&mut self, mut elements: Vec<QuarantinedElement>) {
        let (trainer, trainers) = self.own;
        elements.retain(|element| element.split % trainers.max(1) == trainer);
        self.missed = elements.len() as u64;
        self.terms.elements = elements;
    }

    /// Returns the elements that further jobs leave out.
    pub(super) fn elements(&self) -> &[QuarantinedElement] {
        &self.terms.elements
    }

    /// Decides about a failure. `had` is the number of elements of its split that the trainers have, or
    /// `u64::MAX` for all elements. A finished split is read again after a resume in any order, or from a
    /// joined position. The reader drops its elements, so any of them may be left out.
    pub(super) fn decide(&mut self, failed: &FailedElement, had: u64) -> Decision {
        let element = QuarantinedElement {
            split: failed.split,
            id: failed.id,
        };
        if self.terms.elements.contains(&element) {
            let reason = "The element is quarantined, but its worker did not leave it out: run the same version of Millstream on all \
                          machines.";
            return Decision::Fail(reason.to_owned());
        }
        self.failures_in_all += 1;
        let failures = self.failures.entry(element).or_default();
        *failures += 1;
        let failures = *failures;
        if failures < self.terms.max_failures && self.failures_in_all < FAILURES_MAX {
            return Decision::Retry { failures };
        }
        if failures < self.terms.max_failures {
            return Decision::Fail(format!(
                "The epoch has had {FAILURES_MAX} failures: look for their common cause, for example in the logs of the workers."
            ));
        }
        if had > failed.yielded && had != u64::MAX {
            let reason = "An earlier attempt succeeded, and the trainer has its result, so the element cannot be left out any more: \
                          let the function succeed in every attempt, or fail in every attempt.";
            return Decision::Fail(reason.to_owned());
        }
        let is_missed = had != u64::MAX;
        let quarantined = self.missed + u64::from(is_missed);
        let max = self.terms.max_elements;
        if quarantined > u64::from(max) || self.terms.elements.len() >= ExactlyOnce::QUARANTINED_MAX {
            return Decision::Fail(format!(
                "The element failed in all of its attempts ({failures}), and the limit of {max} quarantined elements is used up: correct \
                 the element or the function, or raise max_quarantined."
            ));
        }
        self.failures.remove(&element);
        self.terms.elements.push(element);
        self.missed = quarantined;
        match is_missed {
            true => Decision::LeaveOut { quarantined },
            false => Decision::LeaveOutAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(max_elements: u32, max_failures: u32) -> QuarantineTerms {
        QuarantineTerms {
            max_elements,
            max_failures,
            elements: Vec::new(),
        }
    }

    fn quarantine(max_elements: u32, max_failures: u32) -> Quarantine {
        Quarantine::new(terms(max_elements, max_failures), (0, 1))
    }

    fn failed(id: u64, yielded: u64) -> FailedElement {
        FailedElement {
            split: 3,
            id,
            yielded,
        }
    }

    fn is_left_out(decision: &Decision) -> bool {
        matches!(decision, Decision::LeaveOut { .. })
    }

    fn reason(decision: Decision) -> String {
        match decision {
            Decision::Fail(reason) => reason,
            other @ (Decision::Retry { .. } | Decision::LeaveOut { .. } | Decision::LeaveOutAgain) => {
                panic!("expected a failure, found {other:?}")
            }
        }
    }

    #[test]
    fn elements_are_retried_before_they_are_left_out() {
        for max_failures in 1..5 {
            let mut quarantine = quarantine(9, max_failures);
            for failures in 1..max_failures {
                assert_eq!(quarantine.decide(&failed(7, 0), 0), Decision::Retry { failures });
                // Failures of other elements do not count.
                let is_other_left_out =
                    is_left_out(&quarantine.decide(&failed(100 + u64::from(failures), 0), 0));
                assert!(!is_other_left_out);
                assert_eq!(quarantine.elements(), []);
            }
            assert_eq!(
                quarantine.decide(&failed(7, 0), 0),
                Decision::LeaveOut { quarantined: 1 }
            );
            assert_eq!(quarantine.elements(), [QuarantinedElement { split: 3, id: 7 }]);
        }
    }

    #[test]
    fn a_pass_leaves_out_a_limited_number() {
        let mut quarantine = quarantine(2, 1);
        assert!((0..2).all(|id| is_left_out(&quarantine.decide(&failed(id, 0), 0))));
        assert!(reason(quarantine.decide(&failed(2, 0), 0)).contains("raise max_quarantined"));
        assert_eq!(quarantine.elements().len(), 2);
    }

    #[test]
    fn delivered_elements_are_never_left_out() {
        let mut quarantine = quarantine(9, 2);
        // The trainer has the elements 0 to 4 of the split, and the failure is at element 4.
        assert_eq!(
            quarantine.decide(&failed(7, 4), 5),
            Decision::Retry { failures: 1 }
        );
        assert!(reason(quarantine.decide(&failed(7, 4), 5)).contains("cannot be left out"));
        assert_eq!(
            quarantine.decide(&failed(8, 5), 5),
            Decision::Retry { failures: 1 }
        );
        assert!(is_left_out(&quarantine.decide(&failed(8, 5), 5)));
    }

    #[test]
    fn finished_splits_leave_out_any_element() {
        let mut quarantine = quarantine(1, 1);
        assert_eq!(
            quarantine.decide(&failed(7, 4), u64::MAX),
            Decision::LeaveOutAgain
        );
        assert_eq!(quarantine.elements().len(), 1);
        // The trainer does not miss this element, so another one may be left out.
        assert_eq!(
            quarantine.decide(&failed(8, 4), 4),
            Decision::LeaveOut { quarantined: 1 }
        );
        assert!(reason(quarantine.decide(&failed(9, 4), 4)).contains("raise max_quarantined"));
    }

    #[test]
    fn elements_of_other_trainers_do_not_count() {
        let elements = (0..6).map(|split| QuarantinedElement { split, id: 1 });
        let terms = QuarantineTerms {
            elements: elements.collect(),
            ..terms(3, 1)
        };
        let mut quarantine = Quarantine::new(terms, (1, 3));
        let own: Vec<u64> = quarantine
            .elements()
            .iter()
            .map(|element| element.split)
            .collect();
        assert_eq!(own, [1, 4]);
        assert_eq!(
            quarantine.decide(&failed(7, 0), 0),
            Decision::LeaveOut { quarantined: 3 }
        );
        assert!(reason(quarantine.decide(&failed(8, 0), 0)).contains("used up"));
    }

    #[test]
    fn a_worker_that_ignores_the_list_is_noticed() {
        let mut quarantine = quarantine(9, 1);
        assert!(is_left_out(&quarantine.decide(&failed(7, 0), 0)));
        assert!(reason(quarantine.decide(&failed(7, 0), 0)).contains("the same version"));
    }

    #[test]
    fn the_failures_of_a_pass_are_limited() {
        let mut quarantine = quarantine(9, 2);
        for id in 1..u64::from(FAILURES_MAX) {
            assert_eq!(
                quarantine.decide(&failed(id, 0), 0),
                Decision::Retry { failures: 1 }
            );
        }
        assert!(reason(quarantine.decide(&failed(0, 0), 0)).contains("common cause"));
    }
}
