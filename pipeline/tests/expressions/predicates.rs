//! Tests of `filter` and `take_while` with expressions, and of the places of several expressions'
//! results.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::Executor;
use millstream_pipeline::graph::{Dataset, Graph, NoFunctions, Span, col, lit};

use crate::support::{Model, context, drain, open};

fn numbers(dataset: Dataset) -> Vec<Model> {
    drain(&mut open(&dataset.graph().unwrap()))
}

#[test]
fn expressions_choose_what_is_kept() {
    let even = Dataset::range(0, 7, 1).filter_expr((col("") % 2).eq(0));
    assert_eq!(numbers(even), [0, 2, 4, 6].map(Model::Scalar));
    let small = Dataset::range(0, 7, 1).take_while_expr(col("").lt(3));
    assert_eq!(numbers(small), [0, 1, 2].map(Model::Scalar));
    let none = Dataset::range(0, 7, 1).filter_expr(lit(false));
    assert_eq!(numbers(none), []);
    let vector = Dataset::range(0, 7, 1).batch(2, false).filter_expr(col("").gt(0));
    let message = vector
        .graph()
        .unwrap()
        .facts(&NoFunctions)
        .unwrap_err()
        .to_string();
    assert!(message.contains("one bool"), "{message}");
}

#[test]
fn several_results_see_the_original_element() {
    let pair = Dataset::zip_named([("a", Dataset::range(1, 4, 1)), ("b", Dataset::range(10, 13, 1))]);
    let swapped =
        pair.clone()
            .with_components([("a", col("b")), ("b", col("a")), ("c", col("a") * col("b"))]);
    let graph = swapped.graph().unwrap();
    let spec = graph.facts(&NoFunctions).unwrap().spec;
    let expected = ["a", "b", "c"].map(|name| (name, TensorSpec::scalar(Dtype::I64)));
    assert_eq!(spec, ElementSpec::dict(expected).unwrap());
    let mut executor = Executor::open(&graph, context()).unwrap();
    let value = executor.next().unwrap().unwrap().value;
    let found: Vec<_> = value.iter().map(|tensor| tensor.as_i64().unwrap()).collect();
    assert_eq!(found, [10, 1, 10]);
    let tuple = pair
        .map_tuple([col("a"), col("b").cast(Dtype::I64)])
        .graph()
        .unwrap();
    assert_eq!(
        tuple.facts(&NoFunctions).unwrap().spec.to_string(),
        "(i64[], i64[])"
    );
}

#[test]
fn the_simple_cases_are_methods() {
    let dataset = Dataset::range(0, 2, 1)
        .map_exprs([("x", col("")), ("text", col("").to_text())])
        .one_hot("x", 3, Dtype::I64)
        .pad("x", [(1, 0)], 7)
        .slice("x", [Span::between(0, 3)])
        .pad_to("x", 0, 4, 9, false)
        .concat("x", ["x", "x"], 0)
        .parse_float("text", Dtype::F64)
        .cast("text", Dtype::I64)
        .map_expr(col("x") + col("text"));
    let graph = dataset.graph().unwrap();
    assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    let rows =
        |items: [i64; 4]| Model::Rows([items, items].concat().into_iter().map(Model::Scalar).collect());
    assert_eq!(
        drain(&mut open(&graph)),
        [rows([7, 1, 0, 9]), rows([8, 1, 2, 10])]
    );
}

#[test]
fn an_expression_computes_elements_of_any_shape() {
    // The last batch is shorter, so the analysis does not know the number of rows.
    let dataset = Dataset::range(0, 5, 1)
        .batch(2, false)
        .map_expr(col("") - col("").min([], false));
    let rows = |items: &[i64]| Model::Rows(items.iter().copied().map(Model::Scalar).collect());
    assert_eq!(numbers(dataset), [rows(&[0, 1]), rows(&[0, 1]), rows(&[0])]);
}
