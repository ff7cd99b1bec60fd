//! The family of operations that carry a state from one element to the next: what they are given, what they yield and the
//! rules of both, so that the rest of the graph has one case for all of them.
//!
//! A function of a state is a chain of maps over a dict of `state` and `element`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};

use super::cardinality::{multiplied, of_body, thinned};
use super::codec::{Parameters, encoded};
use super::constant::Constant;
use super::definition::Graph;
use super::error::{AnalysisError, GraphError};
use super::facts::Cardinality;
use super::group_spec::wants_number;
use super::registry::Registry;
use super::spec::{node_specs, widened};

/// Classes that `rejection_resample` may tell apart.
const CLASSES_MAX: usize = 1 << 16;
/// How often the shapes of a state are made wider until they describe what a function makes of it: a dimension at a time.
const WIDENED_MAX: usize = 64;

/// An operation that carries a state from one element to the next.
#[derive(Debug, Clone, PartialEq)]
pub enum Fold {
    /// What a function makes of each element and the state, which it changes.
    Scan(Box<Folding>),
    /// The state that a function leaves after all elements.
    Reduce(Box<Folding>),
    /// Elements with their classes, so many dropped of each that classes are as frequent as is wanted.
    RejectionResample(Box<Resampling>),
}

/// A state and the function that changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Folding {
    /// The state before the first element of every pass.
    pub initial: Constant,
    /// Makes the next state, of a scan the next state and what it yields, of a dict of `state` and `element`.
    pub function: Graph,
}

/// Parameters of `rejection_resample` and its function.
#[derive(Debug, Clone, PartialEq)]
pub struct Resampling {
    /// The class of an element: maps that end in an `i64`.
    pub class: Graph,
    /// How frequent classes are to be.
    pub params: RejectionResample,
}

/// Parameters of `rejection_resample`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RejectionResample {
    /// How frequent each class is to be, in relation to the others: at least 0, and one of them above.
    #[n(0)]
    pub target: Vec<f64>,
    /// How frequent each class is in the input; absent = counted as elements come.
    #[n(1)]
    pub initial: Option<Vec<f64>>,
    /// The seed; without one every task draws its own.
    #[n(2)]
    pub seed: Option<u64>,
}

impl Fold {
    /// The names of all of them.
    pub(super) const NAMES: &'static [&'static str] = &["scan", "reduce", "rejection_resample"];

    /// The name on the wire and in messages.
    pub fn op_name(&self) -> &'static str {
        match self {
            Fold::Scan(_) => "scan",
            Fold::Reduce(_) => "reduce",
            Fold::RejectionResample(_) => "rejection_resample",
        }
    }

    /// The function that it has as a parameter.
    pub(crate) fn function(&self) -> &Graph {
        match self {
            Fold::Scan(folding) | Fold::Reduce(folding) => &folding.function,
            Fold::RejectionResample(resampling) => &resampling.class,
        }
    }

    /// The same, to be changed into one of the same shape.
    pub(super) fn function_mut(&mut self) -> &mut Graph {
        match self {
            Fold::Scan(folding) | Fold::Reduce(folding) => &mut folding.function,
            Fold::RejectionResample(resampling) => &mut resampling.class,
        }
    }

    /// Its parameters as bytes; the function is encoded beside them.
    pub(super) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Fold::Scan(folding) | Fold::Reduce(folding) => encoded(&folding.initial),
            Fold::RejectionResample(resampling) => encoded(&resampling.params),
        }
    }

    /// The operation that these are the parameters of, if it is of this family, with the function that `function` reads.
    pub(super) fn decode(
        params: &Parameters<'_>,
        function: impl FnOnce() -> Result<Graph, GraphError>,
    ) -> Result<Option<Fold>, GraphError> {
        let folding = |function: Graph| -> Result<Box<Folding>, GraphError> {
            let initial = params.decode()?;
            Ok(Box::new(Folding { initial, function }))
        };
        Ok(Some(match params.op {
            "scan" => Fold::Scan(folding(function()?)?),
            "reduce" => Fold::Reduce(folding(function()?)?),
            "rejection_resample" => Fold::RejectionResample(Box::new(Resampling {
                class: function()?,
                params: params.decode()?,
            })),
            _ => return Ok(None),
        }))
    }

    /// The rules that parameters obey by themselves.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Fold::Scan(folding) | Fold::Reduce(folding) => folding.initial.check(),
            Fold::RejectionResample(resampling) => resampling.params.check(),
        }
    }

    /// What its function is given, where elements of `input` come in.
    pub(crate) fn argument(
        &self,
        registry: &dyn Registry,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        match self {
            Fold::Scan(folding) | Fold::Reduce(folding) => {
                let state = self.state(folding, registry, input)?;
                self.state_and_element(&state, input)
            }
            Fold::RejectionResample(_) => Ok(input.clone()),
        }
    }

    /// What it yields, given elements of `input`.
    pub(super) fn spec(
        &self,
        registry: &dyn Registry,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        match self {
            Fold::Scan(folding) => {
                let state = self.state(folding, registry, input)?;
                let made = self.made(folding, registry, &state, input)?;
                self.parts(&state, &made).map(|(_, output)| output)
            }
            Fold::Reduce(folding) => self.state(folding, registry, input),
            Fold::RejectionResample(resampling) => {
                wants_number("the class", &resampling.class, registry, input)?;
                let structure = Structure::Tuple(vec![Structure::Leaf, input.structure().clone()]);
                let class = TensorSpec::scalar(Dtype::I64);
                let components = std::iter::once(class).chain(input.components().iter().cloned());
                self.allowed(ElementSpec::new(structure, components.collect()))
            }
        }
    }

    /// How many elements it yields, given so many of `spec`.
    pub(super) fn cardinality(
        &self,
        registry: &dyn Registry,
        input: Cardinality,
        spec: &ElementSpec,
    ) -> Result<Cardinality, AnalysisError> {
        Ok(match self {
            Fold::Scan(folding) => {
                let argument = self.argument(registry, spec)?;
                multiplied(input, of_body(&folding.function, &argument, registry)?)
            }
            // Of what has no end there is none; nothing shorter can be said.
            Fold::Reduce(_) if input == Cardinality::Infinite => Cardinality::Unknown,
            Fold::Reduce(_) => Cardinality::Finite(1),
            Fold::RejectionResample(_) => thinned(input),
        })
    }

    /// Why positions cannot be followed through it.
    pub(super) fn misaligns(&self) -> &'static str {
        match self {
            Fold::Scan(_) => "carries a state through the elements of each task",
            Fold::Reduce(_) => "makes one element of all that a task has",
            Fold::RejectionResample(_) => "drops elements by draws that count those of each task",
        }
    }

    /// Draws with `seed` where it has no seed of its own.
    pub(super) fn draw_alike(&mut self, seed: u64) {
        if let Fold::RejectionResample(resampling) = self {
            resampling.params.seed.get_or_insert(seed);
        }
    }

    /// What describes every state: the initial one and what the function makes of such.
    fn state(
        &self,
        folding: &Folding,
        registry: &dyn Registry,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        let mut state = folding.initial.spec.0.clone();
        for _ in 0..WIDENED_MAX {
            let made = self.made(folding, registry, &state, input)?;
            let next = match self {
                Fold::Scan(_) => self.parts(&state, &made)?.0,
                Fold::Reduce(_) | Fold::RejectionResample(_) => made,
            };
            let wider = self.wider(&state, &next)?;
            if wider == state {
                return Ok(state);
            }
            state = wider;
        }
        Err(self.mismatch("its function makes a state of ever other shapes".to_owned()))
    }

    /// What describes both a state and the next.
    fn wider(&self, state: &ElementSpec, next: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        let pairs = state.components().iter().zip(next.components());
        let alike = pairs.clone().all(|(one, other)| one.dtype() == other.dtype());
        if next.structure() != state.structure() || !alike {
            return Err(self.mismatch(format!(
                "its function makes {next} of the state {state}, which is to stay what it is"
            )));
        }
        let components = pairs.map(|(one, other)| widened(one, other)).collect();
        self.allowed(ElementSpec::new(state.structure().clone(), components))
    }

    /// What the function makes of such a state and an element of `input`.
    fn made(
        &self,
        folding: &Folding,
        registry: &dyn Registry,
        state: &ElementSpec,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        let argument = self.state_and_element(state, input)?;
        let made = node_specs(&folding.function, registry, Some(&argument))?.pop();
        made.ok_or_else(|| self.mismatch("it has no function".to_owned()))
    }

    /// The next state and the output that are in `made`.
    fn parts(
        &self,
        state: &ElementSpec,
        made: &ElementSpec,
    ) -> Result<(ElementSpec, ElementSpec), AnalysisError> {
        let parts = match made.structure() {
            Structure::Tuple(items) | Structure::List(items) => items.iter().collect(),
            Structure::Dict(entries) => entries.iter().map(|(_, item)| item).collect(),
            Structure::Leaf | Structure::Ragged { .. } | Structure::Sparse | Structure::None => Vec::new(),
        };
        let [first, second] = parts[..] else {
            return Err(self.mismatch(format!(
                "its function is to make a tuple or dict of two, the next state and what is yielded, and makes {made}"
            )));
        };
        let count = state.components().len();
        if first != state.structure() || made.components().len() < count {
            return Err(self.mismatch(format!(
                "its function makes {made}, whose first part is to be the next state {state}"
            )));
        }
        let (next, output) = made.components().split_at(count);
        Ok((
            self.allowed(ElementSpec::new(first.clone(), next.to_vec()))?,
            self.allowed(ElementSpec::new(second.clone(), output.to_vec()))?,
        ))
    }

    fn state_and_element(
        &self,
        state: &ElementSpec,
        element: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        let entry = |name: &str, spec: &ElementSpec| (name.to_owned(), spec.structure().clone());
        let structure = Structure::Dict(vec![entry("state", state), entry("element", element)]);
        let components = state.components().iter().chain(element.components()).cloned();
        self.allowed(ElementSpec::new(structure, components.collect()))
    }

    fn allowed<E: std::fmt::Display>(
        &self,
        spec: Result<ElementSpec, E>,
    ) -> Result<ElementSpec, AnalysisError> {
        spec.map_err(|error| AnalysisError::Spec {
            op: self.op_name().to_owned(),
            reason: error.to_string(),
        })
    }

    fn mismatch(&self, reason: String) -> AnalysisError {
        AnalysisError::Mismatch {
            op: self.op_name().to_owned(),
            reason,
        }
    }
}

impl RejectionResample {
    fn check(&self) -> Result<(), String> {
        check_distribution("target", &self.target)?;
        let Some(initial) = &self.initial else {
            return Ok(());
        };
        check_distribution("initial", initial)?;
        if initial.len() != self.target.len() {
            return Err(format!(
                "has {} classes in the initial distribution and {} in the target",
                initial.len(),
                self.target.len()
            ));
        }
        let mut pairs = self.target.iter().zip(initial);
        match pairs.position(|(target, initial)| *target > 0.0 && *initial == 0.0) {
            Some(class) => Err(format!(
                "is to yield elements of class {class}, which does not occur in the initial distribution"
            )),
            None => Ok(()),
        }
    }
}

fn check_distribution(what: &str, distribution: &[f64]) -> Result<(), String> {
    if distribution.is_empty() || distribution.len() > CLASSES_MAX {
        return Err(format!(
            "has {} classes in the {what} distribution, it takes 1 to {CLASSES_MAX}",
            distribution.len()
        ));
    }
    let is_wrong = |share: &&f64| !(share.is_finite() && **share >= 0.0);
    if let Some(share) = distribution.iter().find(is_wrong) {
        return Err(format!(
            "has {share} in the {what} distribution, which is not a finite number of at least 0"
        ));
    }
    let sum: f64 = distribution.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        Ok(())
    } else {
        Err(format!("has a {what} distribution whose sum is {sum}"))
    }
}
