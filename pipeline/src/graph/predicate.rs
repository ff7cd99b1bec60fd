//! The condition of `filter` and `take_while`: a registered function, or an expression.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};

use super::check::check_name;
use super::codec::{Encoded, encoded};
use super::error::{AnalysisError, GraphError};
use super::expr::{Expr, Typed, typed};
use super::params::Params;
use super::registry::Registry;

/// Condition that is evaluated for every element.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// A registered predicate.
    Registered(RegisteredPredicate),
    /// Whether an expression, a `bool` scalar, holds.
    Expr(Expr),
}

/// Parameters of `filter` and `take_while` by a registered predicate.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredPredicate {
    /// The registered predicate.
    #[n(0)]
    pub function: String,
    /// Parameters that the function receives beside the element.
    #[n(1)]
    pub params: Params,
}

impl Predicate {
    /// A registered one.
    pub(crate) fn registered(function: impl Into<String>, params: Params) -> Predicate {
        Predicate::Registered(RegisteredPredicate {
            function: function.into(),
            params,
        })
    }

    /// Returns an operation's name on the wire: one name for a registered predicate, another for an
    /// expression.
    pub(crate) fn op_name(&self, registered: &'static str, expr: &'static str) -> &'static str {
        match self {
            Predicate::Registered(_) => registered,
            Predicate::Expr(_) => expr,
        }
    }

    /// Encodes the parameters.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Predicate::Registered(params) => encoded(params),
            Predicate::Expr(expr) => encoded(expr),
        }
    }

    /// Reads the predicate of an operation, which is called `expr` if that is an expression.
    pub(crate) fn decode(encoded: &Encoded<'_>, expr: &str) -> Result<Predicate, GraphError> {
        Ok(if encoded.name() == expr {
            Predicate::Expr(encoded.params()?)
        } else {
            Predicate::Registered(encoded.params()?)
        })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Predicate::Registered(registered) => check_name("function", &registered.function),
            Predicate::Expr(expr) => expr.check(),
        }
    }

    /// Returns whether it can be asked of elements of `input`.
    pub(crate) fn fits(&self, registry: &dyn Registry, input: &ElementSpec) -> Result<(), AnalysisError> {
        match self {
            Predicate::Registered(registered) => {
                registry.filter(&registered.function, &registered.params, input)
            }
            Predicate::Expr(expr) => typed_predicate(expr, input).map(|_| ()),
        }
    }
}

/// The expression `expr` over elements of `input`, which is a `bool` scalar.
pub(crate) fn typed_predicate(expr: &Expr, input: &ElementSpec) -> Result<Typed, AnalysisError> {
    let refused = |reason| AnalysisError::Mismatch {
        op: "filter".to_owned(),
        reason,
    };
    let typed = typed([expr], input).map_err(refused)?;
    let found = typed.spec(0);
    if found.accepts(Dtype::Bool, &[]) {
        return Ok(typed);
    }
    Err(refused(format!(
        "its condition is to be one bool, and is {found}: compare, and reduce with .all([], false)"
    )))
}
