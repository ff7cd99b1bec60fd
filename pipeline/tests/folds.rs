//! Tests of operations that carry a state, for behaviour that the random chains of the model do not
//! cover.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{
    Cardinality, Constant, ConstantTensor, Dataset, Facts, Graph, NoFunctions, Params,
};

use crate::support::{Model, constant, context, drain, functions, number, open, rendered};

fn facts(dataset: Dataset) -> Facts {
    dataset.graph().unwrap().facts(&functions()).unwrap()
}

fn total(both: Dataset) -> Dataset {
    both.map("total", Params::none())
}

fn running(both: Dataset) -> Dataset {
    both.map("running", Params::none())
}

fn modulo(modulus: i64) -> impl Fn(Dataset) -> Dataset {
    move |number| number.map("modulo", Params::encode(&modulus).unwrap())
}

/// Returns the number of elements of each of `N` classes.
fn classes<const N: usize>(dataset: Dataset) -> [usize; N] {
    let mut counts = [0; N];
    let mut executor = open(&dataset.graph().unwrap());
    while let Some(item) = executor.next().unwrap() {
        counts[item.value[0].as_i64().unwrap() as usize] += 1;
    }
    counts
}

#[test]
fn a_reduced_dataset_has_one_element() {
    let only = |dataset: Dataset| {
        let item = open(&dataset.graph().unwrap()).into_only().unwrap();
        number(&item)
    };
    assert_eq!(only(Dataset::range(0, 5, 1).reduce(constant(7), total)), 17);
    assert_eq!(only(Dataset::range(0, 0, 1).reduce(constant(7), total)), 7);
    for (stop, state) in [(5, 10), (0, 0)] {
        let twice = Dataset::range(0, stop, 1)
            .reduce(constant(0), total)
            .repeat(Some(2));
        assert_eq!(
            drain(&mut open(&twice.graph().unwrap())),
            [state, state].map(Model::Scalar)
        );
    }
    let windows =
        Dataset::range(0, 5, 1).group_by_window(modulo(2), 9, |window| window.reduce(constant(0), total));
    assert_eq!(
        drain(&mut open(&windows.graph().unwrap())),
        [6, 4].map(Model::Scalar)
    );
}

#[test]
fn the_only_element_must_be_single() {
    let error = |dataset: Dataset| open(&dataset.graph().unwrap()).into_only().unwrap_err();
    let several = error(Dataset::range(0, 2, 1));
    assert_eq!(several.kind(), ErrorKind::Caller);
    assert!(several.to_string().contains("yields several"), "{several}");
    assert!(error(Dataset::range(0, 0, 1)).to_string().contains("yields none"));
}

#[test]
fn a_state_begins_again_in_every_pass() {
    let scan = Dataset::range(1, 4, 1).scan(constant(0), running).repeat(Some(2));
    assert_eq!(
        drain(&mut open(&scan.graph().unwrap())),
        [2, 5, 9, 2, 5, 9].map(Model::Scalar)
    );
}

#[test]
fn a_state_follows_its_function() {
    // A function that changes nothing keeps the state and yields the elements; a state may have several
    // named components.
    let spec = ElementSpec::dict([
        ("n", TensorSpec::scalar(Dtype::I64)),
        ("s", TensorSpec::scalar(Dtype::String)),
    ]);
    let state = || {
        Constant::new(
            spec.clone().unwrap(),
            vec![
                ConstantTensor::fixed(5i64.to_le_bytes()),
                ConstantTensor::items(["x"]),
            ],
        )
    };
    let scan = Dataset::range(0, 3, 1).scan(state(), |both| both);
    assert_eq!(facts(scan.clone()).spec, facts(Dataset::range(0, 3, 1)).spec);
    assert_eq!(
        drain(&mut open(&scan.graph().unwrap())),
        [0, 1, 2].map(Model::Scalar)
    );
    let reduced =
        Dataset::range(0, 3, 1).reduce(state(), |both| both.select([("element", "n"), ("state.s", "s")]));
    let item = open(&reduced.graph().unwrap()).into_only().unwrap();
    assert_eq!(rendered(&item.value), "2 x");
}

#[test]
fn changing_shapes_become_unknown_dimensions() {
    let vector = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[0])).unwrap();
    let empty = || Constant::new(vector.clone(), vec![ConstantTensor::fixed([])]);
    // The state becomes a vector of the numbers below the element.
    let grown = Dataset::range(0, 4, 1).reduce(empty(), |both| {
        both.select([("element", "element")]).map("up_to", Params::none())
    });
    let spec = facts(grown.clone()).spec;
    assert_eq!(spec.components()[0].dims(), Some(&[None][..]));
    let item = open(&grown.graph().unwrap()).into_only().unwrap();
    assert_eq!(rendered(&item.value), "[0 1 2]");
}

#[test]
fn a_function_must_keep_its_state() {
    let message = |dataset: Dataset| {
        let error = dataset.graph().unwrap().facts(&functions()).unwrap_err();
        error.to_string()
    };
    let range = || Dataset::range(0, 3, 1);
    let scalar = message(range().scan(constant(0), total));
    assert!(scalar.contains("tuple or dict of two"), "{scalar}");
    let spec = ElementSpec::single(TensorSpec::scalar(Dtype::String)).unwrap();
    let text = Constant::new(spec, vec![ConstantTensor::items(["x"])]);
    let other = message(range().reduce(text, |both| both.select([("element", "element")])));
    assert!(other.contains("to keep the structure and dtypes"), "{other}");
    let filter = range().scan(constant(0), |both| both.filter("keep", Params::none()));
    let filter = filter.graph().unwrap_err().to_string();
    assert!(filter.contains("maps alone"), "{filter}");
    let wrong = Constant::new(facts(range()).spec, vec![ConstantTensor::fixed([0; 3])]);
    let wrong = range().reduce(wrong, total).graph().unwrap_err().to_string();
    assert!(wrong.contains("3 bytes"), "{wrong}");
}

#[test]
fn a_scan_that_fails_keeps_its_state() {
    let fails = |both: Dataset| {
        both.map("fails", Params::encode(&3i64).unwrap())
            .map("running", Params::none())
    };
    // The elements 0 and 1 pass with the state 2, and the state becomes 3. `fails` refuses the state 3,
    // so all later elements fail.
    let scan = Dataset::range(0, 6, 1)
        .scan(constant(2), fails)
        .ignore_errors(false);
    let mut executor = open(&scan.graph().unwrap());
    assert_eq!(drain(&mut executor), [2, 4].map(Model::Scalar));
    assert_eq!(executor.skipped(), 4);
}

#[test]
fn folds_state_their_specs_without_registry() {
    let range = || Dataset::range(0, 9, 1);
    assert_eq!(
        facts(range().scan(constant(0), running)).cardinality,
        Cardinality::Finite(9)
    );
    assert_eq!(
        facts(range().reduce(constant(0), total)).cardinality,
        Cardinality::Finite(1)
    );
    let endless = Dataset::counter(0, 1).reduce(constant(0), total);
    assert_eq!(facts(endless).cardinality, Cardinality::Unknown);
    let resampled = range().rejection_resample(modulo(2), [1.0, 1.0], None, None);
    assert_eq!(facts(resampled.clone()).cardinality, Cardinality::Unknown);
    assert!(
        facts(range().scan(constant(0), running))
            .aligned
            .unwrap_err()
            .contains("state")
    );
    assert!(
        facts(range().reduce(constant(0), total))
            .aligned
            .unwrap_err()
            .contains("one element")
    );
    assert!(facts(resampled.clone()).aligned.unwrap_err().contains("draws"));
    for dataset in [
        resampled,
        range().scan(constant(0), running),
        range().reduce(constant(0), total),
    ] {
        let graph = dataset.graph().unwrap();
        let resolved = graph.resolved(&functions()).unwrap();
        let sent = Graph::from_bytes(&resolved.to_bytes().unwrap()).unwrap();
        assert_eq!(sent.facts(&NoFunctions), graph.facts(&functions()));
        assert!(
            Executor::open(&sent, context())
                .unwrap()
                .next()
                .unwrap()
                .is_some()
        );
    }
}

#[test]
fn classes_become_as_frequent_as_is_wanted() {
    let numbers = || Dataset::range(0, 30_000, 1);
    // The classes 0, 1 and 2 have equal frequencies in the input.
    for initial in [None, Some(vec![1.0, 1.0, 1.0])] {
        let found: [usize; 3] =
            classes(numbers().rejection_resample(modulo(3), [4.0, 2.0, 0.0], initial, Some(1)));
        // All elements of class 0 are kept. Half of class 1 is kept, with a standard deviation of 50.
        assert!((9_990..=10_000).contains(&found[0]), "{found:?}");
        assert!((4_700..5_300).contains(&found[1]), "{found:?}");
        assert_eq!(found[2], 0);
    }
}

#[test]
fn the_rarest_class_is_kept_whole() {
    let numbers = Dataset::range(0, 3_000, 1);
    let found: [usize; 3] =
        classes(numbers.rejection_resample(modulo(3), [0.2, 0.4, 0.4], Some(vec![0.5, 0.25, 0.25]), Some(1)));
    assert_eq!((found[1], found[2]), (1_000, 1_000));
    // The expected count is a quarter of 1000, with a standard deviation of 14.
    assert!((160..340).contains(&found[0]), "{found:?}");
}

#[test]
fn resampling_follows_its_seed() {
    let drawn = |seed| {
        let dataset = Dataset::range(0, 64, 1)
            .rejection_resample(modulo(2), [1.0, 3.0], None, seed)
            .repeat(Some(2))
            .graph()
            .unwrap();
        let mut executor = open(&dataset);
        let mut all = Vec::new();
        while let Some(item) = executor.next().unwrap() {
            all.push(item.value[1].as_i64().unwrap());
        }
        all
    };
    assert_eq!(drawn(Some(1)), drawn(Some(1)));
    assert_ne!(drawn(Some(1)), drawn(Some(2)));
    let all = drawn(Some(1));
    let second = all.windows(2).position(|pair| pair[1] < pair[0]).unwrap() + 1;
    assert_ne!(all[..second], all[second..]);
}

#[test]
fn nonsensical_distributions_are_refused() {
    let message = |target: Vec<f64>, initial: Option<Vec<f64>>| {
        let dataset = Dataset::range(0, 9, 1).rejection_resample(modulo(3), target, initial, None);
        dataset.graph().unwrap_err().to_string()
    };
    assert!(message(vec![], None).contains("0 classes"));
    assert!(message(vec![1.0, -1.0], None).contains("-1 in the target"));
    assert!(message(vec![f64::NAN], None).contains("NaN in the target"));
    assert!(message(vec![0.0, 0.0], None).contains("whose sum is 0"));
    assert!(message(vec![f64::MAX, f64::MAX], None).contains("whose sum is inf"));
    assert!(message(vec![1.0], Some(vec![1.0, 1.0])).contains("2 classes in the initial"));
    assert!(message(vec![1.0, 1.0], Some(vec![1.0, 0.0])).contains("above 0 for class 1"));
    let few = Dataset::range(0, 9, 1).rejection_resample(modulo(3), [1.0, 1.0], None, None);
    let mut executor = open(&few.graph().unwrap());
    let error = std::iter::from_fn(|| Some(executor.next()))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.to_string().contains("is 2, expected 0 to 1"), "{error}");
}
