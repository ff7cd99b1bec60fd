//! Python functions as maps of a pipeline. This file reads only the header of the code. So a dispatcher
//! learns the elements of a dataset without running any code.

use std::sync::{Arc, OnceLock};

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{PreparedSitedMap, Site, SitedMapCall, Value};
use millstream_pipeline::graph::Params;

use super::crew::{Crew, Job};
use super::crews::Crews;
use super::described::{Kind, described};
use super::fitting::fitting;
use super::interpreter::Interpreter;
use super::params::{Header, Limits, PythonParams};

/// Prepares a function that makes one element from each element.
///
/// # Errors
/// Fails if the parameters cannot be read, or if `interpreter` has another version than the code.
pub(super) fn prepared(
    interpreter: &Interpreter,
    crews: &Arc<Crews>,
    params: &Params,
    input: &ElementSpec,
) -> Result<PreparedSitedMap, String> {
    let function = OnCall::new(interpreter, crews, params, Kind::Function(input))?;
    let output = function.output.clone();
    let call: SitedMapCall = Arc::new(move |value: Value, site: &Site<'_>| {
        let made = function.crew().call(&value, &function.told(site))?;
        Ok(fitting(made, &function.output)?)
    });
    Ok(PreparedSitedMap { output, call })
}

/// A function whose pool of executors starts at the first call, so that inspecting a dataset runs no code.
#[derive(Debug)]
pub(super) struct OnCall {
    /// The specification of the function's results.
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
    /// Makes the function that `params` describe.
    ///
    /// # Errors
    /// Fails if the parameters cannot be read, or if `interpreter` has another version than the code.
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

    /// Returns the part of a call's site that the code may see.
    pub(super) fn told<'s>(&self, site: &Site<'s>) -> Site<'s> {
        Header::told(self.seeded, site)
    }

    /// Returns the pool of executors that run the function.
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
