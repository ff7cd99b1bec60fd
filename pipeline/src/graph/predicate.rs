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

/// The condition that `filter` or `take_while` evaluates for every element.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// A predicate that is registered by name.
    Registered(RegisteredPredicate),
    /// An expression that computes a `bool` scalar.
    Expr(Expr),
}

/// Parameters of a `filter` or `take_while` with a registered predicate.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredPredicate {
    /// The name of the registered predicate.
    #[n(0)]
    pub function: String,
    /// The parameters that the predicate receives with each element.
    #[n(1)]
    pub params: Params,
}

impl Predicate {
    /// Makes the predicate that is registered under the name `function`.
    pub(crate) fn registered(function: impl Into<String>, params: Params) -> Predicate {
        Predicate::Registered(RegisteredPredicate {
            function: function.into(),
            params,
        })
    }

    /// Returns the name of the registered predicate; `None` for an expression.
    pub(crate) fn registered_name(&self) -> Option<&str> {
        match self {
            Predicate::Registered(registered) => Some(&registered.function),
            Predicate::Expr(_) => None,
        }
    }

    /// Returns the parameters of the predicate that is registered under `name`; `None` for another predicate.
    pub(crate) fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        match self {
            Predicate::Registered(registered) if registered.function == name => Some(&mut registered.params),
            Predicate::Registered(_) | Predicate::Expr(_) => None,
        }
    }

    /// Returns the name of an operation on the wire: `registered` for a registered predicate, `expr` for an
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

    /// Decodes the predicate of an operation. The predicate is an expression if the operation has the name
    /// `expr`.
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

    /// Checks that the predicate can be evaluated for elements of `input`.
    pub(crate) fn fits(&self, registry: &dyn Registry, input: &ElementSpec) -> Result<(), AnalysisError> {
        match self {
            Predicate::Registered(registered) => {
                registry.filter(&registered.function, &registered.params, input)
            }
            Predicate::Expr(expr) => typed_predicate(expr, input).map(|_| ()),
        }
    }
}

/// Infers the types of the expression `expr` for elements of `input`, and checks that its result is a `bool`
/// scalar.
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
        "expected a condition that is one bool, found {found}: compare values, and reduce them with .all([], false)"
    )))
}
