//! The worked example does what CONTRIBUTING.md says, through the table as any front end reaches it.

use std::sync::Arc;

use serde_json::{Map, json};

use crate::exec::{ExecContext, Executor, Functions, Pool};
use crate::graph::{Cardinality, Dataset, Graph, OperationError};

fn every(parameters: serde_json::Value) -> Result<Dataset, OperationError> {
    let parameters: Map<_, _> = parameters.as_object().cloned().unwrap_or_default();
    Dataset::operation("every", parameters, [Dataset::range(0, 8, 1)])
}

fn executor(graph: &Graph) -> Executor {
    let pool = Arc::new(Pool::new(1).unwrap());
    Executor::open(graph, ExecContext::new(1, Arc::new(Functions::new()), pool)).unwrap()
}

#[test]
fn an_operation_is_made_by_name() {
    let graph = every(json!({"step": 3})).unwrap().graph().unwrap();
    let graph = Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap();
    let facts = graph.facts(&Functions::new()).unwrap();
    assert_eq!(facts.cardinality, Cardinality::Finite(3));
    let mut first = executor(&graph);
    assert!(first.next().unwrap().is_some());
    let state = first.save().unwrap();
    let mut second = executor(&graph);
    second.restore(&state).unwrap();
    let rest = std::iter::from_fn(|| second.next().unwrap()).count();
    assert_eq!(rest, 2);
}

#[test]
fn parameters_that_an_operation_lacks_are_named() {
    let error = every(json!({"steps": 3})).unwrap_err().to_string();
    assert!(
        error.contains("every: unknown field `steps`, expected `step`"),
        "{error}"
    );
    let error = every(json!({})).unwrap_err().to_string();
    assert!(error.contains("missing field `step`"), "{error}");
    let error = every(json!({"step": 0})).unwrap_err().to_string();
    assert!(error.contains("nonzero"), "{error}");
    let unknown = Dataset::operation("evrey", Map::new(), []).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no operation \"evrey\"");
}
