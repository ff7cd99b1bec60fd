//! The definition of `map`: a function applied to every element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use serde_json::{Map as Parameters, Value};

use crate::graph::AUTO;
use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::check::{check_component, check_name, check_schedule};
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::function::{Function, RegisteredMap};
use crate::graph::image::ImageFunction;
use crate::graph::label;
use crate::graph::native::{Native, ParseInt, Select, Selected};
use crate::graph::params::{Params, SpecField};
use crate::graph::schedule::Schedule;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};

/// The operation `map` and all that are maps of a native function.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The function that is called with every element.
    pub function: Function,
    /// The schedule of the calls over threads.
    pub schedule: Schedule,
}

impl Operation for Map {
    fn name(&self) -> &'static str {
        self.function.op_name()
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match &self.function {
            Function::Registered(params) => encoded(params),
            Function::Image(image) => image.encode(),
            Function::Native(native) => native.encode(),
        }
    }

    fn schedule(&self) -> Option<Schedule> {
        Some(self.schedule)
    }

    fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        Some(&mut self.schedule)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_schedule(self.schedule)?;
        match &self.function {
            Function::Registered(registered) => check_name("function", &registered.name),
            Function::Image(image) => {
                check_component(image.component())?;
                image.check()
            }
            Function::Native(native) => native.check(),
        }
    }

    fn check_place(&self, _: Role, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        match &self.function {
            Function::Registered(registered) => match &registered.output {
                Some(output) => Ok(output.0.clone()),
                None => given.registry.map(&registered.name, &registered.params, input),
            },
            Function::Image(image) => image.spec(input),
            Function::Native(native) => native.output(input),
        }
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        match &self.function {
            Function::Image(image) if image.may_skip() => given.count().map(thinned),
            Function::Registered(_) | Function::Image(_) | Function::Native(_) => given.count(),
        }
    }

    fn misaligns(&self, deterministic: bool) -> Option<&'static str> {
        let is_ordered = self.schedule.is_ordered(deterministic);
        (!is_ordered).then_some("yields results in no particular order")
    }

    fn ignores_order(&self) -> bool {
        true
    }

    fn draw_alike(&mut self, _: u64) {
        self.schedule.ordered = Some(true);
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        if let Function::Registered(registered) = &mut self.function {
            registered.output = Some(SpecField(resolution.output().clone()));
        }
        Ok(())
    }

    fn label(&self) -> String {
        let function = &self.function;
        let parameter = if function.name() == function.op_name() {
            ""
        } else {
            function.name()
        };
        let label = label::label(function.op_name(), parameter);
        match self.schedule.parallel {
            1 => label,
            AUTO => format!("{label} ×AUTO"),
            threads => format!("{label} ×{threads}"),
        }
    }
}

/// Reads the operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    let function = match encoded.name() {
        "map" => Function::Registered(encoded.params()?),
        name if ImageFunction::NAMES.contains(&name) => Function::Image(ImageFunction::decode(encoded)?),
        name => {
            let native = Native::decode(name, encoded.param_bytes());
            let native = native.ok_or_else(|| encoded.malformed("is no function"))?;
            Function::Native(native.map_err(|error| encoded.malformed(error))?)
        }
    };
    Ok(Op::new(Map {
        function,
        schedule: encoded.schedule(),
    }))
}

/// Adds the map of a native function.
pub(crate) fn named(
    name: &str,
    parameters: Parameters<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    let image = || ImageFunction::named(name, &parameters).map(|made| made.map(Function::Image));
    let native = Native::named(name, &parameters).map(|made| made.map(Function::Native));
    let function = native
        .or_else(image)
        .ok_or("its function is registered in a program, and has no named parameters")??;
    let schedule = Schedule::default();
    Ok(Dataset::joined(Map { function, schedule }, inputs))
}

impl Dataset {
    /// Applies the registered function `name` to every element.
    ///
    /// Works as `tf.data.Dataset.map`. What it returns as an error, or panics with, is the failure of that
    /// element, with its position.
    pub fn map(self, name: impl Into<String>, params: Params) -> Dataset {
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output: None,
        }))
    }

    /// Declares the spec of the function's results, for a program that does not have it registered; else as
    /// [`Dataset::map`].
    pub fn map_declared(self, name: impl Into<String>, params: Params, output: ElementSpec) -> Dataset {
        let output = Some(SpecField(output));
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output,
        }))
    }

    /// Reads the decimal text in `component` as an `i64`.
    ///
    /// Works as `tf.strings.to_number`. Text that is no number is an error of its element.
    pub fn parse_int(self, component: impl Into<String>) -> Dataset {
        self.native(ParseInt {
            component: component.into(),
        })
    }

    /// A dict of the named components under new names, in this order: `(from, name)`.
    ///
    /// A component that is not there is refused when the dataset is analysed.
    pub fn select<'a>(self, components: impl IntoIterator<Item = (&'a str, &'a str)>) -> Dataset {
        let components = components
            .into_iter()
            .map(|(from, name)| Selected {
                from: from.to_owned(),
                name: name.to_owned(),
            })
            .collect();
        self.native(Select { components })
    }

    /// Applies a native function.
    pub(crate) fn native(self, native: impl Into<Native>) -> Dataset {
        self.function(Function::Native(native.into()))
    }

    pub(crate) fn function(self, function: Function) -> Dataset {
        self.then(Map {
            function,
            schedule: Schedule::default(),
        })
    }
}
