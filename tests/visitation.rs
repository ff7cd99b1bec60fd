//! Every element as often as the policy promises, for whatever shape of service and reader.

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use proptest::prelude::*;

use crate::support::cluster::{Cluster, drain};
use crate::support::links::Mechanism;
use crate::support::watched;

/// Few, because each starts a service, which is then read in several shapes.
const CASES: u32 = 8;

#[derive(Debug, Clone)]
struct Shape {
    elements: i64,
    max_outstanding: u64,
    batch: Option<u64>,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let shape = (0..2000_i64, 1..=100_u64, proptest::option::of(1..=33_u64));
    let shape = shape.prop_map(|(elements, max_outstanding, batch)| Shape {
        elements,
        max_outstanding,
        batch,
    });
    proptest::collection::vec(shape, 1..=5)
}

fn every_number_comes_as_often_as_promised(mechanism: Mechanism, workers: usize, shapes: &[Shape]) {
    let cluster = Cluster::plain(mechanism, workers);
    for shape in shapes {
        read_in_shape(&cluster, shape);
    }
}

fn read_in_shape(cluster: &Cluster, shape: &Shape) {
    let Shape {
        elements,
        max_outstanding,
        batch,
    } = *shape;
    let workers = cluster.workers.len();
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
    fn over_memory_every_number_comes_as_often_as_promised(workers in 1..=3_usize, shapes in shapes()) {
        let what = format!("{workers} workers, {shapes:?}");
        watched(&what, move || every_number_comes_as_often_as_promised(Mechanism::Memory, workers, &shapes));
    }

    #[test]
    fn over_quic_every_number_comes_as_often_as_promised(workers in 1..=3_usize, shapes in shapes()) {
        let what = format!("{workers} workers, {shapes:?}");
        watched(&what, move || every_number_comes_as_often_as_promised(Mechanism::Quic, workers, &shapes));
    }
}
