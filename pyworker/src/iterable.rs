//! Python iterables as sources of a pipeline. Either one process reads an iterable with a small prefetch, or
//! several processes read it together in turns, like the processes of a `DataLoader`. This file does not know
//! the contents of iterables.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{Cancel, ErrorKind, ExecError, Site, Source, SourceFactory, Value};
use millstream_pipeline::graph::{Cardinality, Params, SourceSignature};

use super::crew::{Hired, Job};
use super::crews::Crews;
use super::described::{Kind, described};
use super::ending::Ending;
use super::fitting::fitting;
use super::interpreter::Interpreter;
use super::params::{Header, Limits, NAME, PythonParams, raised};

/// The number of elements requested from an executor in advance: the executor works on one while another is
/// on its way.
pub(super) const AHEAD: usize = 2;

/// Python iterables as a source that is always read as a whole.
#[derive(Debug)]
pub(super) struct Iterables {
    interpreter: Interpreter,
    crews: Arc<Crews>,
}

/// One pass over an iterable.
struct Iterating {
    /// The executors in the order of their turns, without exhausted ones.
    turns: VecDeque<Hired>,
    output: ElementSpec,
    limits: Limits,
    cancel: Cancel,
}

impl Iterables {
    /// Makes a source whose iterables are read by processes of `interpreter`.
    pub(super) fn new(interpreter: Interpreter, crews: Arc<Crews>) -> Iterables {
        Iterables { interpreter, crews }
    }
}

impl SourceFactory for Iterables {
    fn signature(&self, params: &Params) -> Result<SourceSignature, String> {
        let params = PythonParams::from_params(params)?;
        params.header(&self.interpreter)?;
        Ok(SourceSignature {
            spec: params.output,
            cardinality: Cardinality::Unknown,
            indexable: false,
        })
    }

    fn open(&self, params: &Params, positions: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let (draw, cancel) = (0, Cancel::new());
        self.open_at(
            params,
            positions,
            &Site {
                draw,
                pass: draw,
                cancel: &cancel,
            },
        )
    }

    fn open_at(&self, params: &Params, _: Range<u64>, site: &Site<'_>) -> Result<Box<dyn Source>, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, NAME, reason);
        let params = PythonParams::from_params(params).map_err(refused)?;
        let Header { limits, seeded, .. } = params.header(&self.interpreter).map_err(refused)?;
        let site = &Header::told(seeded, site);
        let crew = self.crews.crew(Job {
            interpreter: self.interpreter.clone(),
            described: described(Kind::Iterable, &params.output, &limits),
            code: params.code,
            limits,
        });
        let limits = crew.job.limits.clone();
        let turns = (0..limits.processes.max(1)).map(|index| crew.hire(Some(index), site));
        Ok(Box::new(Iterating {
            turns: turns.collect::<Result<_, _>>()?,
            output: params.output,
            limits,
            cancel: site.cancel.clone(),
        }))
    }
}

impl Source for Iterating {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        while let Some(mut hired) = self.turns.pop_front() {
            let executor = hired.executor()?;
            let asked = executor.ask_ahead(AHEAD, &self.limits);
            match asked.and_then(|()| executor.answer(&self.limits, &self.cancel)) {
                Ok(value) => {
                    self.turns.push_back(hired);
                    return fitting(value, &self.output).map(Some);
                }
                Err(Ending::Exhausted) => {}
                Err(Ending::Cancelled) => return Err(ExecError::cancelled(NAME)),
                Err(Ending::Raised { said, traceback }) => return Err(raised(said, traceback)),
                // The iterable's position is lost with the process, so it cannot be restarted without
                // repeating or losing elements.
                Err(Ending::Gone(gone)) => return Err(gone.failure(1)),
            }
        }
        Ok(None)
    }
}
