//! Every element as often as the policy promises, for whatever shape of service and reader.

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use proptest::prelude::*;

use crate::support::cluster::{Cluster, drain};
use crate::support::links::Mechanism;
use crate::support::watched;

/// Few, because each starts a service; the seeds of failures are kept.
const CASES: u32 = 12;

#[derive(Debug, Clone)]
struct Case {
    elements: i64,
    workers: usize,
    max_outstanding: u64,
    batch: Option<u64>,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (
        0..2000_i64,
        1..=3_usize,
        1..=100_u64,
        proptest::option::of(1..=33_u64),
    );
    shape.prop_map(|(elements, workers, max_outstanding, batch)| Case {
        elements,
        workers,
        max_outstanding,
        batch,
    })
}

fn every_number_comes_as_often_as_promised(mechanism: Mechanism, case: Case) {
    let Case {
        elements,
        workers,
        max_outstanding,
        batch,
    } = case;
    let cluster = Cluster::plain(mechanism, workers);
    for (policy, times) in [(Policy::Off, workers), (Policy::Dynamic, 1)] {
        let mut dataset = Dataset::range(0, elements, 1);
        if let Some(size) = batch {
            dataset = dataset.batch(size, false);
        }
        let mut reader = cluster.read(dataset, policy, MaxOutstanding::Elements(max_outstanding));
        let mut seen = drain(&mut reader);
        seen.sort_unstable();
        let promised: Vec<i64> = (0..elements)
            .flat_map(|number| std::iter::repeat_n(number, times))
            .collect();
        assert!(
            seen == promised,
            "{policy}: {} numbers instead of {}",
            seen.len(),
            promised.len()
        );
        assert!(matches!(reader.next_element(), Ok(None)), "an end is final");
        assert!(
            reader.stats().lost_splits.is_empty(),
            "nothing is lost while all processes live"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn over_memory_every_number_comes_as_often_as_promised(case in case()) {
        watched(&format!("{case:?}"), || every_number_comes_as_often_as_promised(Mechanism::Memory, case));
    }

    #[test]
    fn over_quic_every_number_comes_as_often_as_promised(case in case()) {
        watched(&format!("{case:?}"), || every_number_comes_as_often_as_promised(Mechanism::Quic, case));
    }
}
