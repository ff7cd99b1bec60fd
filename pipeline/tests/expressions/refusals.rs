//! Tests of expressions that are refused, and of their error messages.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{
    ConstantTensor, Dataset, EXPR_NODES_MAX, Expr, Graph, NoFunctions, Span, col, concat, lit,
};
use proptest::prelude::*;

use crate::support::context;

fn sample() -> Dataset {
    let spec = ElementSpec::dict([
        ("f", TensorSpec::fixed(Dtype::F32, &[2, 3])),
        ("i", TensorSpec::fixed(Dtype::I64, &[3])),
        ("s", TensorSpec::fixed(Dtype::String, &[1])),
    ]);
    let tensors = vec![
        ConstantTensor::fixed(vec![0; 24]),
        ConstantTensor::fixed(vec![0; 24]),
        ConstantTensor::items(["x"]),
    ];
    Dataset::tensors(spec.unwrap(), tensors)
}

/// Returns the reason for which the analysis refuses `expr` over the sample element.
fn refused(expr: Expr) -> String {
    let graph = sample().map_expr(expr).graph().unwrap();
    graph.facts(&NoFunctions).unwrap_err().to_string()
}

#[test]
fn impossible_expressions_are_refused_by_analysis() {
    let cases = [
        (col("f") + col("i"), "`add` of f32 and i64", "cast one of them"),
        (col("g") + 1, "no component \"g\"", "{f: f32[2,3]"),
        (
            col("i") + 0.5,
            "0.5 cannot be combined with i64",
            "cast one of them",
        ),
        (col("f") + col("f").transpose([]), "do not broadcast", "f32[3,2]"),
        (!col("f"), "expected bool", "`not`"),
        (col("i").sqrt(), "expected floats", "cast them first"),
        (col("i").mean([], false), "expected floats", "`mean`"),
        (col("f").sum([2], false), "axis 2", "2 dimensions"),
        (col("f").reshape([4, -1]), "6 items do not fit", "[4, -1]"),
        (col("f").at(2), "index 2 is outside of 2 items", "`slice`"),
        (
            concat([col("f"), col("f").at(0)], 0),
            "different ranks",
            "`concat`",
        ),
        (col("s") - col("s"), "expected integers or floats", "`sub`"),
        (col("s").cast(Dtype::F32), "to_number", "`cast`"),
        (col("f").cast(Dtype::String), "to_text", "`cast`"),
        (col("s").split(None), "expected one string", "split"),
        (col("f").lower(), "expected strings", "`lower`"),
        (
            col("f").pad_to(1, 2, 0.0, false),
            "at most 2, found 3",
            "`pad_to`",
        ),
        (
            lit(300) + col("i").cast(Dtype::U8),
            "300 does not fit u8",
            "`add`",
        ),
        (
            col("i").if_else(1, 2),
            "expected a condition of bool",
            "`if_else`",
        ),
        (-col("i").cast(Dtype::U8), "signed", "`neg`"),
        (
            col("f").one_hot(3, Dtype::F32),
            "expected classes as integers",
            "`one_hot`",
        ),
    ];
    for (expr, one, other) in cases {
        let message = refused(expr);
        assert!(message.contains(one) && message.contains(other), "{message}");
    }
}

#[test]
fn absurd_parameters_are_refused_early() {
    let refused = |expr: Expr| sample().map_expr(expr).graph().unwrap_err().to_string();
    assert!(refused(col("f").slice([Span::ALL.by(0)])).contains("step of 0"));
    assert!(refused(col("f").reshape([-1, -1])).contains("one may be -1"));
    assert!(refused(col("f").transpose([0, 0])).contains("each axis exactly once"));
    assert!(refused(col("s").hash_bucket(0)).contains("no buckets"));
    assert!(refused(col("s").split(Some(""))).contains("empty separator"));
    assert!(refused(col("s").lookup(["a", "a"], None)).contains("twice"));
    let long = (0..EXPR_NODES_MAX as i64).fold(col("i"), |expr, number| expr + number);
    assert!(refused(long).contains("the limit is 4096"));
    let twice = sample().map_exprs([("a", col("f")), ("a", col("i"))]).graph();
    assert!(twice.unwrap_err().to_string().contains("twice"));
    let none = sample().map_exprs(Vec::<(String, Expr)>::new()).graph();
    assert!(none.unwrap_err().to_string().contains("computes 0"));
    let single = Dataset::range(0, 1, 1)
        .with_component("x", lit(1))
        .graph()
        .unwrap();
    let message = single.facts(&NoFunctions).unwrap_err().to_string();
    assert!(message.contains("expected a dict"), "{message}");
}

#[test]
fn impossible_elements_are_the_datas_fault() {
    let dataset = Dataset::range(0, 3, 1).map_expr(lit(6).floor_div(col("") - 1));
    let mut executor = Executor::open(&dataset.graph().unwrap(), context()).unwrap();
    assert_eq!(executor.next().unwrap().unwrap().value[0].as_i64(), Some(-6));
    let error = executor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    let message = error.to_string();
    assert!(
        message.contains("`floor_div` of i64[] and i64[]") && message.contains("divided by 0"),
        "{message}"
    );
}

#[test]
fn oversized_results_are_refused_before_allocation() {
    let huge = lit(0).broadcast_to([1 << 40]);
    let dataset = Dataset::range(0, 1, 1).map_expr(huge + col(""));
    let mut executor = Executor::open(&dataset.graph().unwrap(), context()).unwrap();
    let message = executor.next().unwrap_err().to_string();
    assert!(message.contains("expected a result of at most"), "{message}");
}

#[cfg(feature = "text")]
#[test]
fn an_invalid_pattern_is_refused_at_opening() {
    let dataset = sample().map_expr(col("s").regex_full_match("(")).graph().unwrap();
    let message = Executor::open(&dataset, context()).err().unwrap().to_string();
    assert!(message.contains("invalid pattern"), "{message}");
    let large = sample().map_expr(col("s").regex_contains("(a{1000}){1000}"));
    assert!(Executor::open(&large.graph().unwrap(), context()).is_err());
}

proptest! {
    #[test]
    fn damaged_expressions_never_panic(at: prop::sample::Index, byte: u8, other: prop::sample::Index, second: u8) {
        let expr = (col("i") * 2 + 1).slice([Span::from(1..)]).pad_to(0, 4, 7, true).gather(col("i"), 0).sum([0], true);
        let text = col("s").lower().split_at_most(Some(" "), 2).join("-").lookup(["x", "y"], Some(3));
        let dataset = sample()
            .with_components([("i", expr), ("n", text)])
            .filter_expr(col("f").mean([], false).lt(1.0));
        let mut bytes = dataset.graph().unwrap().to_bytes().unwrap();
        let (at, other) = (at.index(bytes.len()), other.index(bytes.len()));
        bytes[at] = byte;
        bytes[other] = second;
        if let Ok(graph) = Graph::from_bytes(&bytes)
            && graph.facts(&NoFunctions).is_ok()
            && let Ok(mut executor) = Executor::open(&graph, context())
        {
            let _ = executor.next();
        }
    }
}
