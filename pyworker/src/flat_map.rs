//! Python functions that make an iterable from each element. One process runs the function, and then the
//! resulting iterable until its end, with a small prefetch. After the iterable's end the process is free for
//! another element. This file does not know the order of elements.
//!
//! If a process is killed before any element of its iterable was delivered, another process repeats the input
//! element, as for maps. After a delivery, the death of the process is a failure that states the number of
//! delivered elements. A second run could repeat or lose elements silently, because an iterable need not
//! yield the same elements again.

use std::sync::Arc;

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{
    Cancel, ExecError, PreparedSitedFlatMap, Site, SitedFlatMapCall, Source, Value,
};
use millstream_pipeline::graph::Params;

use super::crew::{Crew, Hired};
use super::crews::Crews;
use super::described::Kind;
use super::ending::Ending;
use super::fitting::fitting;
use super::function::OnCall;
use super::interpreter::Interpreter;
use super::iterable::AHEAD;
use super::params::{NAME, raised};

/// Prepares a function that makes an iterable from each element.
pub(super) fn prepared(
    interpreter: &Interpreter,
    crews: &Arc<Crews>,
    params: &Params,
    input: &ElementSpec,
) -> Result<PreparedSitedFlatMap, String> {
    let function = OnCall::new(interpreter, crews, params, Kind::FlatFunction(input))?;
    let output = function.output.clone();
    let call: SitedFlatMapCall = Arc::new(move |value: Value, site: &Site<'_>| {
        Ok(Box::new(Iterating {
            crew: Arc::clone(function.crew()),
            output: function.output.clone(),
            stage: Stage::Ahead(value),
            draw: function.told(site).draw,
            cancel: site.cancel.clone(),
            delivered: 0,
        }) as Box<dyn Source>)
    });
    Ok(PreparedSitedFlatMap { output, call })
}

/// The iterable of one input element.
struct Iterating {
    crew: Arc<Crew>,
    output: ElementSpec,
    stage: Stage,
    draw: u64,
    cancel: Cancel,
    /// The number of elements that were delivered to the caller.
    delivered: u64,
}

enum Stage {
    /// The input element, while no element of the iterable was delivered.
    Ahead(Value),
    /// The executor that runs the iterable.
    Within(Hired),
    Over,
}

impl Iterating {
    /// Starts the iterable of an element. Returns the first answer, and the executor for the further
    /// elements.
    fn begin(&self, value: &Value) -> Result<(Hired, Result<Option<Value>, ExecError>), ExecError> {
        let site = Site {
            draw: self.draw,
            pass: self.draw,
            cancel: &self.cancel,
        };
        self.crew.ask(value, AHEAD - 1, &site)
    }

    /// Returns the next answer, and the executor.
    fn go_on(&self, mut hired: Hired) -> Result<(Hired, Result<Option<Value>, ExecError>), ExecError> {
        let (executor, limits) = (hired.executor()?, &self.crew.job.limits);
        let asked = executor.ask_ahead(AHEAD, limits);
        let answered = match asked.and_then(|()| executor.answer(limits, &self.cancel)) {
            Ok(value) => Ok(Some(value)),
            Err(Ending::Exhausted) => Ok(None),
            Err(Ending::Raised { said, traceback }) => Err(raised(said, traceback)),
            Err(Ending::Cancelled) => {
                self.crew.part(hired);
                return Err(ExecError::cancelled(NAME));
            }
            Err(Ending::Gone(gone)) => return Err(gone.failure_after(self.delivered)),
        };
        Ok((hired, answered))
    }
}

impl Source for Iterating {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let (hired, answered) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ahead(value) => self.begin(&value)?,
            Stage::Within(hired) => self.go_on(hired)?,
            Stage::Over => return Ok(None),
        };
        if let Ok(Some(_)) = &answered {
            self.delivered += 1;
            self.stage = Stage::Within(hired);
        } else {
            self.crew.part(hired);
        }
        answered?.map(|value| fitting(value, &self.output)).transpose()
    }
}

impl Drop for Iterating {
    fn drop(&mut self) {
        if let Stage::Within(hired) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.crew.part(hired);
        }
    }
}
