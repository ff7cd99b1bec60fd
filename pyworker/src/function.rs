//! Python's functions as maps of a pipeline. This file reads only the header of the code, so that a
//! dispatcher learns the elements of a dataset without running anything.

use std::sync::{Arc, OnceLock};

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{PreparedSitedMap, Site, SitedMapCall, Value};
use millstream_pipeline::graph::Params;

use super::crew::{Crew, Job};
use super::crews::Crews;
use super::described::{Kind, described};
use super::interpreter::Interpreter;
use super::params::{Header, Limits, PythonParams};

/// A function that makes one element of each element.
///
/// # Errors
/// The parameters cannot be read, or `interpreter` is of another version than the code.
pub(super) fn prepared(
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

/// A function whose crew starts at the first call, so that looking at a dataset runs nothing.
#[derive(Debug)]
pub(super) struct OnCall {
    /// The elements that it yields.
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
    /// The function that `params` describe.
    ///
    /// # Errors
    /// The parameters cannot be read, or `interpreter` is of another version than the code.
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

    /// The part of a call's site that the code may see.
    pub(super) fn told<'s>(&self, site: &Site<'s>) -> Site<'s> {
        Header::told(self.seeded, site)
    }

    /// The processes that run it.
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
