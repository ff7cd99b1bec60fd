//! The definition of `filter`, which keeps the elements for which a predicate holds.
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

/// The operation `filter`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter(pub Predicate);

impl Operation for Filter {
    fn name(&self) -> &'static str {
        self.0.op_name("filter", "filter_expr")
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

    fn ignores_order(&self) -> bool {
        true
    }

    fn yields_its_input(&self) -> bool {
        true
    }
}

/// Decodes a `filter` or `filter_expr` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Predicate::decode(encoded, "filter_expr").map(|predicate| Op::new(Filter(predicate)))
}

impl Dataset {
    /// Keeps the elements for which the registered predicate `name` returns true.
    ///
    /// Works like `tf.data.Dataset.filter`.
    pub fn filter(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(Filter(Predicate::registered(name, params)))
    }

    /// Keeps the elements for which `expr`, a `bool` scalar, is true.
    ///
    /// Works like `tf.data.Dataset.filter`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// # use millstream_pipeline::graph::col;
    /// let dataset = Dataset::range(0, 6, 1).filter_expr((col("") % 2).eq(0));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 2, 4].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn filter_expr(self, expr: impl Into<Expr>) -> Dataset {
        self.then(Filter(Predicate::Expr(expr.into())))
    }
}
