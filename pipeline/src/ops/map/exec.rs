//! The execution of `map` in the thread of the caller, one element at a time, and the calls of
//! registered functions.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::{self, Call, Chain, Place};
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::functions::SitedMapCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::Seeds;
use crate::exec::site::Site;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;

use super::definition;
use super::parallel::ParallelMap;
use crate::exec::expected::Expected;
use crate::exec::native;
use crate::exec::program::check_declared;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::exec::yielded::check;
use crate::graph::{Function, ImageFunction, Native, Schedule};

/// The entry of `map` and of all image and native functions in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["map"], ImageFunction::NAMES, Native::NAMES],
    decode: definition::decode,
    named: Some(definition::named),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Map>()?;
    let input = preparing.input()?;
    let function = match &operation.function {
        Function::Registered(registered) => {
            let (name, params) = (&registered.name, &registered.params);
            let found = preparing.means.prepare_map(name, params, input)?;
            check_declared(name, preparing.output, &found.output)?;
            Ready::Registered(name.clone(), found.call)
        }
        Function::Native(function) => {
            if let Some(feature) = native::missing_feature(function) {
                return Err(missing(function.op_name(), feature));
            }
            Ready::Native(native::prepare(function, input, preparing.means.storage)?)
        }
        Function::Image(function) if !cfg!(feature = "images") => {
            return Err(missing(function.op_name(), "images"));
        }
        Function::Image(function) => Ready::Image(function.clone()),
    };
    Ok(Box::new(Mapping {
        schedule: operation.schedule,
        function,
    }))
}

fn missing(op: &'static str, feature: &'static str) -> OpenError {
    OpenError::Feature { op, feature }
}

/// A map that is ready to be opened.
struct Mapping {
    schedule: Schedule,
    function: Ready,
}

/// The function of a map, ready to be called.
enum Ready {
    Registered(String, SitedMapCall),
    Native(Arc<dyn Call>),
    Image(ImageFunction),
}

impl Prepared for Mapping {
    /// Opens this map and the maps directly below it with the same schedule, as one step.
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let (program, node, shared) = (opening.program, opening.node, opening.shared);
        let graph = program.graph();
        let mut maps = Vec::new();
        let mut below = node;
        while graph.nodes()[below].op.is::<definition::Map>() && (below == node || graph.is_fused(below)) {
            maps.push(below);
            // A map always has an input.
            below = graph.nodes()[below].inputs[0] as usize;
        }
        maps.reverse();
        let chain = program.calls(&maps, shared)?;
        let input = program.open_node(below, shared, opening.argument)?;
        if self.schedule.parallel == 1 {
            return Ok(Box::new(Map::new(chain, input, &opening.own_shared())));
        }
        Ok(Box::new(ParallelMap::new(
            chain,
            self.schedule.parallel,
            self.schedule.is_ordered(shared.deterministic),
            graph.fills_rows(node),
            (Expected::of(program.spec_of(below)), Expected::of(opening.spec())),
            input,
            opening.own_shared(),
        )))
    }

    fn call(&self, opening: &Opening<'_>) -> Option<Result<Box<dyn Call>, ExecError>> {
        Some(match &self.function {
            Ready::Registered(name, call) => Ok(Box::new(RegisteredCall {
                name: name.clone(),
                call: Arc::clone(call),
                output: opening.spec().clone(),
                seeds: opening.shared.seeds(opening.drawn(), None),
                cancel: opening.shared.cancel.clone(),
            })),
            Ready::Native(call) => Ok(Box::new(native::Shared(Arc::clone(call)))),
            Ready::Image(function) => image_call(opening, function),
        })
    }
}

#[cfg(feature = "images")]
fn image_call(opening: &Opening<'_>, function: &ImageFunction) -> Result<Box<dyn Call>, ExecError> {
    let place = crate::graph::component(function.op_name(), opening.input_spec()?, function.component());
    let place =
        place.map_err(|error| ExecError::new(ErrorKind::Caller, function.op_name(), error.to_string()))?;
    crate::exec::image::call(opening.drawn(), function, place, opening.shared)
}

#[cfg(not(feature = "images"))]
fn image_call(_: &Opening<'_>, function: &ImageFunction) -> Result<Box<dyn Call>, ExecError> {
    Err(crate::exec::program::unprepared(function.op_name()))
}

pub(crate) struct Map {
    chain: Chain,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    pass: u64,
}

impl Map {
    pub(crate) fn new(chain: Chain, input: Input, shared: &Shared) -> Map {
        Map {
            chain,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pass: 0,
        }
    }
}

impl Iterate for Map {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if let Some(item) = call::run(&self.chain, item, self.pass, &self.faults)? {
                return Ok(Some(item));
            }
            self.cancel.check("map")?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("map")?;
        state.number(self.pass)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("map")?;
        self.pass = state.number()?;
        self.input.restore(state)
    }
}

/// A registered function whose results are checked against its declared spec.
pub(crate) struct RegisteredCall {
    pub(crate) name: String,
    pub(crate) call: SitedMapCall,
    pub(crate) output: ElementSpec,
    pub(crate) seeds: Seeds,
    pub(crate) cancel: Cancel,
}

impl Call for RegisteredCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        // A function that reports more than a message, such as a Python traceback, returns an
        // `ExecError`.
        let failed = |error: crate::exec::error::BoxError| match error.downcast::<ExecError>() {
            Ok(error) => *error,
            Err(error) => ExecError::new(ErrorKind::UserFunction, &*self.name, error.to_string()),
        };
        let site = Site::new(&self.seeds, at.pass, at.position, &self.cancel);
        let value = (self.call)(value, &site).map_err(failed)?;
        check(&self.name, &self.output, &value)?;
        Ok(Some(value))
    }
}
