//! Tests of sources without files: embedded tensors, and endless counters and random numbers.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::{ExecContext, Executor};
use millstream_pipeline::graph::{Cardinality, ConstantTensor, Dataset, Splitting};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Model, context, drain, functions, number, open};

/// Returns the first `count` numbers of `dataset`, read by the task `task_id` in `epoch`.
fn first(dataset: &Dataset, count: usize, task_id: u64, epoch: u64) -> Vec<i64> {
    let context = ExecContext {
        task_id,
        epoch,
        ..context()
    };
    let mut executor = Executor::open(&dataset.clone().graph().unwrap(), context).unwrap();
    (0..count)
        .map(|_| number(&executor.next().unwrap().unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(rounds(50))]

    #[test]
    fn a_counter_counts(start: i64, step: i64) {
        let mut expected = start;
        for value in first(&Dataset::counter(start, step), 20, 1, 0) {
            prop_assert_eq!(value, expected);
            expected = expected.wrapping_add(step);
        }
    }

    #[test]
    fn endless_numbers_continue_where_saved(cut in 0usize..50) {
        for endless in [Dataset::counter(3, -2), Dataset::random(Some(9)), Dataset::random(None)] {
            // The dataset is repeated, so that some states are saved in a later pass.
            let graph = endless.take(20).repeat(Some(3)).graph().unwrap();
            let uninterrupted = drain(&mut open(&graph));
            let mut executor = open(&graph);
            for _ in 0..cut {
                executor.next().unwrap();
            }
            let state = executor.save().unwrap();
            let mut restored = open(&graph);
            restored.restore(&state).unwrap();
            prop_assert_eq!(drain(&mut restored), &uninterrupted[cut..]);
        }
    }
}

#[test]
fn random_numbers_agree_with_a_seed_only() {
    let seeded = Dataset::random(Some(7));
    assert_eq!(first(&seeded, 100, 1, 0), first(&seeded, 100, 2, 0));
    assert_ne!(first(&seeded, 100, 1, 0), first(&seeded, 100, 1, 1));
    let unseeded = Dataset::random(None);
    assert_ne!(first(&unseeded, 100, 1, 0), first(&unseeded, 100, 2, 0));
    let twice = first(&seeded.take(50).repeat(Some(2)), 100, 1, 0);
    assert_ne!(twice[..50], twice[50..]);
}

#[test]
fn random_numbers_are_spread_over_their_range() {
    let drawn = first(&Dataset::random(Some(1)), 4000, 1, 0);
    let mut quarters = [0; 4];
    for number in drawn {
        quarters[usize::try_from(number >> 30).unwrap()] += 1;
    }
    // The expected count is 1000 each, with a standard deviation of 27.
    assert!(
        quarters.iter().all(|count| (850..1150).contains(count)),
        "{quarters:?}"
    );
}

#[test]
fn endless_numbers_can_be_dealt_out() {
    for endless in [Dataset::counter(0, 1), Dataset::random(None)] {
        let facts = endless.graph().unwrap().facts(&functions()).unwrap();
        assert_eq!(facts.cardinality, Cardinality::Infinite);
        let Splitting::Counted(units) = facts.sources[0].splitting else {
            panic!("{:?}", facts.sources)
        };
        assert_eq!(units.positions(), u64::MAX);
        assert_eq!(units.range(0), Some(0..4096));
        assert!(units.range(units.splits() - 1).is_some() && units.range(units.splits()).is_none());
    }
}

#[test]
fn embedded_tensors_are_one_element_of_any_structure() {
    let components = vec![
        TensorSpec::fixed(Dtype::I64, &[1, 2]),
        TensorSpec::fixed(Dtype::I64, &[1]),
        TensorSpec::fixed(Dtype::I64, &[2]),
    ];
    let spec = ElementSpec::new(Structure::Sparse, components).unwrap();
    let numbers = |numbers: &[i64]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        ConstantTensor::fixed(bytes)
    };
    let tensors = vec![numbers(&[3, 1]), numbers(&[5]), numbers(&[4, 4])];
    let graph = Dataset::tensors(spec.clone(), tensors)
        .repeat(Some(2))
        .graph()
        .unwrap();
    let facts = graph.facts(&functions()).unwrap();
    assert_eq!((facts.spec, facts.cardinality), (spec, Cardinality::Finite(2)));
    let row = |numbers: &[i64]| Model::Rows(numbers.iter().copied().map(Model::Scalar).collect());
    assert_eq!(
        drain(&mut open(&graph)),
        vec![Model::Rows(vec![row(&[3, 1])]); 2],
        "the indices"
    );
    let mut executor = open(&graph);
    assert_eq!(executor.next().unwrap().unwrap().value.len(), 3);
    let state = executor.save().unwrap();
    let mut restored = open(&graph);
    restored.restore(&state).unwrap();
    assert_eq!(drain(&mut restored).len(), 1);
}

#[test]
fn embedded_tensors_must_fit_their_spec() {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[2])).unwrap();
    let dataset = Dataset::tensors(spec, vec![ConstantTensor::fixed(vec![0; 8])]);
    let error = dataset.graph().unwrap_err();
    assert!(error.to_string().contains("8 bytes for 2 items"), "{error}");
}
