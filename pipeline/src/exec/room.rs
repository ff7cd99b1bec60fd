//! One kind of operation, as the table of operations lists it.
//!
//! Owns the link from a name on the wire to what reads and prepares the operation. Refuses to know which
//! kinds there are.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::program::Prepare;
use crate::graph::Dataset;
use crate::graph::codec::Decode;
use crate::graph::named::{NoParameters, named_params};
use crate::graph::tree::{Op, Operation};

/// Adds the operation of a name, with parameters by name, to its inputs.
///
/// The error says which parameter is missing, unknown or of a wrong type.
pub(crate) type Named = fn(&str, Map<String, Value>, Vec<Dataset>) -> Result<Dataset, String>;

/// One kind of operation.
pub(crate) struct Room {
    /// The names on the wire: one, or one for each function of a family.
    pub(crate) names: &'static [&'static [&'static str]],
    /// Reads the operation from its parameters.
    pub(crate) decode: Decode,
    /// Adds the operation with named parameters; `None` for parameters that JSON cannot hold, such as functions.
    pub(crate) named: Option<Named>,
    /// Prepares the operation to be executed.
    pub(crate) prepare: Prepare,
}

/// Adds an operation of type `T`.
pub(crate) fn named<T: Operation + DeserializeOwned>(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    let operation = named_params::<T>(parameters)?;
    Ok(Dataset::joined(Op::new(operation), inputs))
}

/// Adds an operation that has no parameters.
pub(crate) fn nameless<T: Operation + Default>(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    named_params::<NoParameters>(parameters)?;
    Ok(Dataset::joined(Op::new(T::default()), inputs))
}
