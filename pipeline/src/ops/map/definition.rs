//! The definition of `map`, which applies a function to every element.
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

/// The operation `map`, and every operation that applies a native or image function.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The function that runs on every element.
    pub function: Function,
    /// The schedule that spreads the calls over threads.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
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

    fn calls_in_turn(&self) -> bool {
        matches!(self.function, Function::Registered(_)) && self.schedule.parallel == 1
    }

    fn registered_name(&self) -> Option<&str> {
        match &self.function {
            Function::Registered(registered) => Some(&registered.name),
            Function::Image(_) | Function::Native(_) => None,
        }
    }

    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        match &mut self.function {
            Function::Registered(registered) if registered.name == name => Some(&mut registered.params),
            Function::Registered(_) | Function::Image(_) | Function::Native(_) => None,
        }
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

/// Decodes a `map`, or the operation of an image or native function.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    let function = match encoded.name() {
        "map" => Function::Registered(encoded.params()?),
        name if ImageFunction::NAMES.contains(&name) => Function::Image(ImageFunction::decode(encoded)?),
        name => {
            let native = Native::decode(name, encoded.param_bytes());
            let native = native.ok_or_else(|| encoded.malformed("is not a known function"))?;
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
    /// Works like `tf.data.Dataset.map`. An error or a panic of the function is a failure of that
    /// element, and the error states the element's position.
    pub fn map(self, name: impl Into<String>, params: Params) -> Dataset {
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output: None,
        }))
    }

    /// Works like [`Dataset::map`], and declares that the function returns elements of the spec
    /// `output`. Programs in which the function is not registered need this method.
    pub fn map_declared(self, name: impl Into<String>, params: Params, output: ElementSpec) -> Dataset {
        let output = Some(SpecField(output));
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output,
        }))
    }

    /// Parses the decimal text in `component` as an `i64`.
    ///
    /// Works like `tf.strings.to_number`. Text that is not a number is a failure of its element.
    pub fn parse_int(self, component: impl Into<String>) -> Dataset {
        self.native(ParseInt {
            component: component.into(),
        })
    }

    /// Turns each element into a dict of the named components, in the given order. Each pair `(from,
    /// name)` states the present and the new name.
    ///
    /// The analysis of the dataset refuses the name of a component that does not exist.
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

    /// Applies the native function `native` to every element.
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
