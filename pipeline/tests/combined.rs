//! Tests of datasets that combine several datasets: their elements, the splits of these elements, and
//! their end.

use std::collections::BTreeSet;

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::Executor;
use millstream_pipeline::graph::{Cardinality, Dataset, Facts, Params, Splitting};

use crate::support::{functions, open};

fn range(count: i64) -> Dataset {
    Dataset::range(0, count, 1)
}

fn facts(dataset: &Dataset) -> Facts {
    dataset.clone().graph().unwrap().facts(&functions()).unwrap()
}

fn message(dataset: Dataset) -> String {
    match dataset.graph() {
        Ok(graph) => graph.facts(&functions()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

/// Reads all elements, each as the list of its components.
fn rows(executor: &mut Executor) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        rows.push(item.value.iter().map(|tensor| tensor.as_i64().unwrap()).collect());
    }
    rows
}

fn rows_of(dataset: Dataset) -> Vec<Vec<i64>> {
    rows(&mut open(&dataset.graph().unwrap()))
}

/// Returns the number of positions of each source.
fn positions(dataset: &Dataset) -> Vec<u64> {
    let sources = facts(dataset).sources.into_iter();
    let counted = sources.map(|source| {
        let Splitting::Counted(units) = source.splitting else {
            panic!("{source:?}")
        };
        units.positions()
    });
    counted.collect()
}

#[test]
fn a_repeat_yields_all_its_passes() {
    use Cardinality::{Finite, Infinite};
    for (dataset, expected) in [
        (range(10), Finite(10)),
        (range(9).repeat(Some(9)), Finite(81)),
        (range(9).repeat(Some(0)), Finite(0)),
        (range(9).repeat(None), Infinite),
        (range(0).repeat(None), Finite(0)),
        (range(-9).repeat(Some(9)), Finite(0)),
        (range(-9).repeat(None), Finite(0)),
    ] {
        assert_eq!(facts(&dataset).cardinality, expected, "{dataset:?}");
    }
}

#[test]
fn each_source_has_its_own_positions() {
    let fives = || [(); 3].map(|()| range(5));
    let weighted = fives().map(|input| (1.0, input));
    for (dataset, expected) in [
        (range(10), vec![10]),
        (range(3).enumerate(0), vec![3]),
        (
            Dataset::zip([range(3), Dataset::counter(0, 1)]),
            vec![3, u64::MAX],
        ),
        (Dataset::sample(weighted, None, false), vec![5; 3]),
        (Dataset::choose(range(3).repeat(None), fives(), true), vec![5; 3]),
    ] {
        assert_eq!(positions(&dataset), expected, "{dataset:?}");
    }
}

#[test]
fn a_zip_ends_with_its_shortest_input() {
    let zip = Dataset::zip([range(5), range(3).batch(1, true).unbatch(), range(9).skip(4)]);
    assert_eq!(facts(&zip).cardinality, Cardinality::Finite(3));
    assert_eq!(rows_of(zip), [[0, 0, 4], [1, 1, 5], [2, 2, 6]]);
    assert_eq!(rows_of(Dataset::zip([range(2)])), [[0], [1]]);
    assert_eq!(
        facts(&Dataset::zip([range(2).repeat(None)])).cardinality,
        Cardinality::Infinite
    );
}

#[test]
fn every_zip_pass_restarts_its_inputs() {
    let zip = Dataset::zip([range(2), range(1000).repeat(None)]);
    assert_eq!(rows_of(zip.repeat(Some(2))), [[0, 0], [1, 1], [0, 0], [1, 1]]);
}

#[test]
fn a_zip_yields_tuples_or_dicts() {
    let scalar = TensorSpec::scalar(Dtype::I64);
    let pair = Structure::Tuple(vec![Structure::Leaf, Structure::Leaf]);
    let nested = Dataset::zip([range(1), Dataset::zip([range(1), range(1)])]);
    let structure = Structure::Tuple(vec![Structure::Leaf, pair.clone()]);
    let expected = ElementSpec::new(structure, vec![scalar.clone(); 3]).unwrap();
    assert_eq!(facts(&nested).spec, expected);
    let named = Dataset::zip_named([("a", range(1)), ("b", Dataset::zip([range(1), range(1)]))]);
    let structure = Structure::Dict(vec![("a".to_owned(), Structure::Leaf), ("b".to_owned(), pair)]);
    assert_eq!(
        facts(&named).spec,
        ElementSpec::new(structure, vec![scalar; 3]).unwrap()
    );
}

#[test]
fn what_cannot_be_zipped_says_why() {
    assert!(message(Dataset::zip([])).contains("has 0 inputs, expected 1 or more"));
    assert!(message(Dataset::zip_named([("a", range(1)), ("a", range(1))])).contains("duplicate dict key"));
    assert!(message(Dataset::zip_named([("", range(1))])).contains("name is empty"));
    assert!(message(Dataset::zip([range(1), range(1).batch(0, false)])).contains("batch"));
}

#[test]
fn a_concatenation_yields_its_inputs_in_order() {
    let dataset = range(2).concatenate(range(0)).concatenate(range(3).skip(1));
    assert_eq!(facts(&dataset).cardinality, Cardinality::Finite(4));
    assert_eq!(
        rows_of(dataset.repeat(Some(2))),
        [[0], [1], [1], [2], [0], [1], [1], [2]]
    );
    let endless = facts(&range(2).concatenate(range(1).repeat(None)));
    assert_eq!(endless.cardinality, Cardinality::Infinite);
    assert_eq!(endless.aligned, Ok(()));
}

#[test]
fn long_concatenations_stay_flat() {
    let dataset = (0..1000).fold(range(1), |dataset, _| dataset.concatenate(range(1)));
    assert_eq!(rows_of(dataset).len(), 1001);
}

#[test]
fn concatenated_specs_share_structure_not_dimensions() {
    let rows = |size| range(6).batch(size, true);
    let spec = |dims: &[Option<u64>]| ElementSpec::single(TensorSpec::with_dims(Dtype::I64, dims)).unwrap();
    assert_eq!(facts(&rows(2).concatenate(rows(2))).spec, spec(&[Some(2)]));
    assert_eq!(facts(&rows(2).concatenate(rows(3))).spec, spec(&[None]));
    let unranked = ElementSpec::single(TensorSpec::unknown_rank(Dtype::I64)).unwrap();
    assert_eq!(facts(&range(1).concatenate(rows(3))).spec, unranked);
    for other in [Dataset::files("a"), Dataset::zip([range(1)])] {
        let message = message(range(1).concatenate(other));
        assert!(message.contains("different structures or dtypes"), "{message}");
    }
}

#[test]
fn inputs_draw_apart_at_one_position() {
    let inputs = || range(20).repeat(Some(2));
    let dataset = inputs().concatenate(inputs()).concatenate(inputs());
    let mut executor = open(&dataset.graph().unwrap());
    let mut positions = BTreeSet::new();
    while let Some(item) = executor.next().unwrap() {
        assert!(
            positions.insert(item.position),
            "found two elements at the same position"
        );
    }
    assert_eq!(positions.len(), 120);
}

#[test]
fn an_enumeration_numbers_every_pass() {
    let dataset = Dataset::zip([range(3), range(3)]).enumerate(-1);
    let pair = Structure::Tuple(vec![Structure::Leaf, Structure::Leaf]);
    let structure = Structure::Tuple(vec![Structure::Leaf, pair]);
    assert_eq!(*facts(&dataset).spec.structure(), structure);
    assert_eq!(facts(&dataset).cardinality, Cardinality::Finite(3));
    let once = [[-1, 0, 0], [0, 1, 1], [1, 2, 2]];
    assert_eq!(rows_of(dataset.repeat(Some(2))), [once, once].concat());
}

#[test]
fn an_interleave_takes_blocks_in_turn() {
    let dataset = Dataset::range(1, 6, 1).interleave(2, 4, |argument| argument.repeat(Some(6)));
    let expected = [
        1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5,
    ];
    assert_eq!(facts(&dataset).cardinality, Cardinality::Finite(30));
    let twice = rows_of(dataset.repeat(Some(2))).concat();
    assert_eq!(twice, [expected, expected].concat());
}

#[test]
fn an_interleave_longer_than_its_input_ends() {
    let dataset = range(3).interleave(100, 1, |argument| {
        Dataset::zip([argument.repeat(Some(2)), range(9)]).enumerate(0)
    });
    let expected = [[0, 0, 0], [0, 1, 0], [0, 2, 0], [1, 0, 1], [1, 1, 1], [1, 2, 1]];
    assert_eq!(rows_of(dataset), expected);
}

fn constant(value: i64) -> Dataset {
    Dataset::range(value, value + 1, 1).repeat(None)
}

#[test]
fn inputs_are_sampled_by_weight() {
    let inputs = [
        (0.6, constant(0)),
        (0.0, constant(9)),
        (0.3, constant(1)),
        (0.1, constant(2)),
    ];
    let dataset = Dataset::sample(inputs, Some(3), false).take(10_000);
    assert_eq!(facts(&dataset).cardinality, Cardinality::Finite(10_000));
    let found = rows_of(dataset).concat();
    for (value, expected) in [(0, 6000), (1, 3000), (2, 1000)] {
        let count = found.iter().filter(|found| **found == value).count();
        // Five standard deviations of a binomial draw are at most 250.
        assert!(
            count.abs_diff(expected) < 250,
            "expected about {expected} draws of {value}, found {count}"
        );
    }
}

#[test]
fn samples_follow_their_seed() {
    let passes = |seed| {
        let inputs = [(1.0, range(50)), (1.0, Dataset::range(100, 150, 1))];
        rows_of(Dataset::sample(inputs, seed, false).repeat(Some(2))).concat()
    };
    let found = passes(Some(1));
    assert_eq!(found, passes(Some(1)));
    assert_ne!(found, passes(Some(2)));
    assert_ne!(found[..100], found[100..]);
}

#[test]
fn a_sample_keeps_its_inputs_order() {
    let inputs = || [(1.0, range(20)), (1.0, Dataset::range(100, 1000, 1))];
    let all = rows_of(Dataset::sample(inputs(), Some(5), false)).concat();
    let (small, large): (Vec<i64>, Vec<i64>) = all.iter().partition(|value| **value < 100);
    assert_eq!((small, large), ((0..20).collect(), (100..1000).collect()));
    assert_eq!(
        facts(&Dataset::sample(inputs(), None, false)).cardinality,
        Cardinality::Finite(920)
    );
    assert_eq!(
        facts(&Dataset::sample(inputs(), None, true)).cardinality,
        Cardinality::Unknown
    );
    let stopped = rows_of(Dataset::sample(inputs(), Some(5), true)).concat();
    // The dataset ends at the first draw of the ended input: after all elements of that input and some
    // of the other.
    assert!(stopped.len() < all.len() && all.starts_with(&stopped));
    assert_eq!(stopped.iter().filter(|value| **value < 100).count(), 20);
}

#[test]
fn inputs_are_chosen_by_number_in_every_pass() {
    let choices = range(3).repeat(Some(2));
    let inputs = [10, 20, 30].map(|start| Dataset::range(start, start + 2, 1));
    let dataset = Dataset::choose(choices, inputs, true).repeat(Some(2));
    let once = [10, 20, 30, 11, 21, 31];
    assert_eq!(rows_of(dataset).concat(), [once, once].concat());
}

#[test]
fn endless_choices_end_with_their_inputs() {
    let dataset = Dataset::choose(constant(1), [range(3), range(2)], true);
    assert_eq!(rows_of(dataset).concat(), [0, 1]);
    let dataset = Dataset::choose(range(2).repeat(None), [range(3), range(1)], false);
    assert_eq!(rows_of(dataset).concat(), [0, 0, 1, 2]);
    let cardinality =
        |choices| facts(&Dataset::choose(choices, [constant(0), constant(1)], true)).cardinality;
    assert_eq!(cardinality(constant(1)), Cardinality::Infinite);
    assert_eq!(cardinality(range(2)), Cardinality::Finite(2));
}

#[test]
fn an_invalid_choice_is_an_error() {
    for choice in [-1, 2] {
        let dataset = Dataset::choose(constant(choice), [range(3), range(3)], true);
        let error = open(&dataset.graph().unwrap()).next().unwrap_err();
        let expected = format!("a choice is {choice}, which is not the index of one of 2 datasets");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn what_cannot_be_sampled_or_chosen_says_why() {
    let sample = |weight| {
        message(Dataset::sample(
            [(1.0, range(1)), (weight, range(1))],
            None,
            false,
        ))
    };
    assert!(sample(-1.0).contains("weight -1"));
    assert!(sample(f64::NAN).contains("weight NaN"));
    assert!(sample(f64::INFINITY).contains("weight inf"));
    let huge = [(f64::MAX, range(1)), (f64::MAX, range(1))];
    assert!(message(Dataset::sample(huge, None, false)).contains("sum is not finite"));
    assert!(message(Dataset::sample([(0.0, range(1))], None, false)).contains("has 0 inputs"));
    let other = [(1.0, range(1)), (1.0, Dataset::files("a"))];
    assert!(message(Dataset::sample(other, None, false)).contains("different structures"));
    let choose = |choices| message(Dataset::choose(choices, [range(1)], false));
    assert!(choose(Dataset::files("a")).contains("i64 scalars"));
    assert!(choose(range(1).take(1).batch(0, false)).contains("batch"));
    assert!(choose(Dataset::range(0, 1, 0)).contains("step is 0"));
}

#[test]
fn choices_are_no_source_that_is_dealt_out() {
    let dataset = Dataset::choose(Dataset::files("/none/*"), [range(3), range(4)], true);
    let sources = dataset.graph().unwrap().sources();
    assert_eq!(sources.len(), 2);
    let argument = range(2).flat_map(|argument| Dataset::choose(argument, [range(1)], false));
    assert!(message(argument).contains("this graph is not the body of a function"));
}

#[test]
fn an_argument_can_be_zipped_with_itself() {
    let dataset = range(3).flat_map(|argument| {
        let other = argument.clone().map("add", Params::encode(&10i64).unwrap());
        Dataset::zip([argument.repeat(Some(2)), other.repeat(None)])
    });
    assert_eq!(
        rows_of(dataset),
        [[0, 10], [0, 10], [1, 11], [1, 11], [2, 12], [2, 12]]
    );
}

#[test]
fn a_zips_sources_are_dealt_out_separately() {
    let zip = Dataset::zip([range(10), Dataset::zip([range(2000), range(30)])]);
    let splits = |splitting: &Splitting| match splitting {
        Splitting::Counted(units) => units.splits(),
        Splitting::Listed | Splitting::Whole(_) => 0,
    };
    let facts = facts(&zip);
    assert_eq!(facts.splittable, Ok(()));
    assert_eq!(
        facts
            .sources
            .iter()
            .map(|source| splits(&source.splitting))
            .collect::<Vec<_>>(),
        [10, 1000, 30]
    );
}
