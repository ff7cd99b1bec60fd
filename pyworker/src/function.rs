//! Python's functions as maps of a pipeline, and what all kinds of code are registered by. Nothing of the code is read here but its
//! header: a dispatcher learns what a dataset yields without running anything.

use std::sync::{Arc, OnceLock};

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{Functions, PreparedSitedMap, Site, SitedMapCall, Value};
use millstream_pipeline::graph::Params;

use super::crew::{Crew, Job};
use super::crews::Crews;
use super::described::{Kind, described};
use super::flat_map;
use super::interpreter::Interpreter;
use super::iterable::Iterables;
use super::params::{Header, Limits, NAME, PythonParams};

/// The functions, and Python's, run by processes of `interpreter`, which are started when there is code to run.
#[must_use]
pub fn registered(functions: Functions, interpreter: Interpreter) -> Functions {
    let crews = Arc::new(Crews::default());
    let iterables = Iterables::new(interpreter.clone(), Arc::clone(&crews));
    let maps = (interpreter.clone(), Arc::clone(&crews));
    functions
        .with_sited_map(NAME, move |params, input| {
            prepared(&maps.0, &maps.1, params, input)
        })
        .with_sited_flat_map(NAME, move |params, input| {
            flat_map::prepared(&interpreter, &crews, params, input)
        })
        .with_source(NAME, iterables)
}

fn prepared(
    interpreter: &Interpreter,
    crews: &Arc<Crews>,
    params: &Params,
    input: &ElementSpec,
) -> Result<PreparedSitedMap, String> {
    let function = OnCall::new(interpreter, crews, params, Kind::Function(input))?;
    let output = function.output.clone();
    let call: SitedMapCall = Arc::new(move |value: Value, site: &Site<'_>| {
        Ok(function.crew().call(&value, &function.told(site))?)
    });
    Ok(PreparedSitedMap { output, call })
}

/// A function whose crew is gathered when it is called for the first time: whoever only looks at a dataset runs nothing.
#[derive(Debug)]
pub(super) struct OnCall {
    /// What it yields.
    pub(super) output: ElementSpec,
    interpreter: Interpreter,
    described: String,
    code: Vec<u8>,
    limits: Limits,
    seeded: bool,
    crews: Arc<Crews>,
    crew: OnceLock<Arc<Crew>>,
}

impl OnCall {
    /// Of these parameters.
    ///
    /// # Errors
    /// What is wrong with them, or that `interpreter` is of another version.
    pub(super) fn new(
        interpreter: &Interpreter,
        crews: &Arc<Crews>,
        params: &Params,
        kind: Kind<'_>,
    ) -> Result<OnCall, String> {
        let params = PythonParams::from_params(params)?;
        let Header { limits, seeded, .. } = params.header(interpreter)?;
        Ok(OnCall {
            described: described(kind, &params.output, &limits),
            output: params.output,
            interpreter: interpreter.clone(),
            code: params.code,
            limits,
            seeded,
            crews: Arc::clone(crews),
            crew: OnceLock::new(),
        })
    }

    /// The site of a call as the code is told it.
    pub(super) fn told<'s>(&self, site: &Site<'s>) -> Site<'s> {
        Header::told(self.seeded, site)
    }

    /// Who runs it.
    pub(super) fn crew(&self) -> &Arc<Crew> {
        self.crew.get_or_init(|| {
            self.crews.crew(Job {
                interpreter: self.interpreter.clone(),
                described: self.described.clone(),
                code: self.code.clone(),
                limits: self.limits.clone(),
            })
        })
    }
}
