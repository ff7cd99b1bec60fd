//! The registration of Python functions and iterables with the pipeline. This file knows no processes.

use std::sync::Arc;

use millstream_pipeline::exec::Functions;

use super::crews::Crews;
use super::interpreter::Interpreter;
use super::iterable::Iterables;
use super::params::NAME;
use super::{flat_map, function};

/// Adds Python functions and iterables to `functions`. Processes of `interpreter` run the code, and start
/// only when a pipeline has code to run.
#[must_use]
pub fn registered(functions: Functions, interpreter: Interpreter) -> Functions {
    let crews = Arc::new(Crews::default());
    let iterables = Iterables::new(interpreter.clone(), Arc::clone(&crews));
    let maps = (interpreter.clone(), Arc::clone(&crews));
    functions
        .with_sited_map(NAME, move |params, input| {
            function::prepared(&maps.0, &maps.1, params, input)
        })
        .with_sited_flat_map(NAME, move |params, input| {
            flat_map::prepared(&interpreter, &crews, params, input)
        })
        .with_source(NAME, iterables)
}
