//! The definition of `take_while`, which ends before the first element for which a predicate does not
//! hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::expr::Expr;
use crate::graph::params::Params;
use crate::graph::predicate::Predicate;
use crate::graph::tree::{Given, Op, Operation};

/// The operation `take_while`.
#[derive(Debug, Clone, PartialEq)]
pub struct TakeWhile(pub Predicate);

impl Operation for TakeWhile {
    fn name(&self) -> &'static str {
        self.0.op_name("take_while", "take_while_expr")
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        self.0.encode()
    }

    fn registered_name(&self) -> Option<&str> {
        self.0.registered_name()
    }

    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        self.0.params_mut(name)
    }

    fn calls_in_turn(&self) -> bool {
        matches!(self.0, Predicate::Registered(_))
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.0.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0.fits(given.registry, given.input()?)?;
        given.input().cloned()
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("ends the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("counts the elements of each task, not positions of the source")
    }
}

/// Decodes a `take_while` or `take_while_expr` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Predicate::decode(encoded, "take_while_expr").map(|predicate| Op::new(TakeWhile(predicate)))
}

impl Dataset {
    /// Yields the elements before the first one for which the registered predicate `name` returns
    /// false.
    ///
    /// Works like `tf.data.Dataset.take_while`.
    pub fn take_while(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(TakeWhile(Predicate::registered(name, params)))
    }

    /// Yields the elements before the first one for which `expr`, a `bool` scalar, is false.
    ///
    /// Works like `tf.data.Dataset.take_while`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// # use millstream_pipeline::graph::col;
    /// let dataset = Dataset::range(0, 9, 1).take_while_expr(col("").lt(3));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 2].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn take_while_expr(self, expr: impl Into<Expr>) -> Dataset {
        self.then(TakeWhile(Predicate::Expr(expr.into())))
    }
}
