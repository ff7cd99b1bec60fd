//! `flat_map`: a dataset per element, one after the other. The dataset is the function's body, executed anew
//! with the element as its argument, or whatever a registered function opens.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::FlatMapCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::Program;
use crate::exec::random::mix;
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;

use super::source::check;

pub(crate) struct FlatMap {
    body: Body,
    input: Input,
    cancel: Cancel,
    /// How often it was restarted: a body draws anew in every pass.
    pass: u64,
    current: Option<Current>,
}

/// What makes a dataset of an element.
pub(crate) enum Body {
    Program {
        program: Arc<Program>,
        shared: Shared,
    },
    Registered {
        name: String,
        call: FlatMapCall,
        output: ElementSpec,
    },
}

/// The dataset being read.
struct Current {
    /// The element it was made of.
    outer: Item,
    inner: Inner,
    /// Elements read of it.
    read: u64,
}

enum Inner {
    Tree(Input),
    Source(Box<dyn Source>),
}

impl FlatMap {
    pub(crate) fn new(body: Body, input: Input, cancel: Cancel) -> FlatMap {
        FlatMap {
            body,
            input,
            cancel,
            pass: 0,
            current: None,
        }
    }
}

impl Body {
    fn open(&self, outer: &Item, pass: u64) -> Result<Inner, ExecError> {
        match self {
            Body::Program { program, shared } => {
                // The body's elements get their marks from the outer element, here and not below.
                let argument = Item {
                    marks: Default::default(),
                    ..outer.clone()
                };
                let within = shared.within(mix(outer.position, pass));
                program.open(&within, Some(&argument)).map(Inner::Tree)
            }
            Body::Registered { name, call, .. } => {
                let open = || {
                    let opened = call(outer.value.clone());
                    opened
                        .map_err(|error| ExecError::new(ErrorKind::UserFunction, &**name, error.to_string()))
                };
                guarded(name, open).map(Inner::Source)
            }
        }
    }

    fn next(&self, current: &mut Current) -> Result<Option<Item>, ExecError> {
        let item = match &mut current.inner {
            Inner::Tree(tree) => tree.next()?,
            Inner::Source(source) => {
                let name = self.name();
                let value = guarded(name, || source.next())?;
                if let (Some(value), Body::Registered { output, .. }) = (&value, self) {
                    check(name, output, value)?;
                }
                value.map(|value| Item::new(value, 0))
            }
        };
        let Some(mut item) = item else { return Ok(None) };
        item.marks = current.outer.marks.clone();
        item.position = mix(current.outer.position, current.read);
        item.origin = item.origin.or_else(|| current.outer.origin.clone());
        current.read = current.read.wrapping_add(1);
        Ok(Some(item))
    }

    fn name(&self) -> &str {
        match self {
            Body::Program { .. } => "flat_map",
            Body::Registered { name, .. } => name,
        }
    }
}

impl Iterate for FlatMap {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("flat_map")?;
            if let Some(current) = &mut self.current {
                match self.body.next(current) {
                    Ok(Some(item)) => return Ok(Some(item)),
                    Ok(None) => self.current = None,
                    Err(error) => {
                        token::abandon(&current.outer.marks);
                        return Err(error.at_position(current.outer.position));
                    }
                }
                continue;
            }
            let Some(outer) = self.input.next()? else {
                return Ok(None);
            };
            let opened = self.body.open(&outer, self.pass).map_err(|error| {
                token::abandon(&outer.marks);
                error.at(outer.origin.as_ref()).at_position(outer.position)
            });
            self.current = Some(Current {
                inner: opened?,
                outer,
                read: 0,
            });
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = None;
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("flat_map")?;
        state.number(self.pass)?;
        state.flag(self.current.is_some())?;
        if let Some(current) = &mut self.current {
            state.item(&current.outer)?;
            state.number(current.read)?;
            match &mut current.inner {
                Inner::Tree(tree) => tree.save(state)?,
                Inner::Source(_) => {}
            }
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("flat_map")?;
        self.pass = state.number()?;
        if state.flag()? {
            let outer = state.item()?;
            let read = state.number()?;
            let mut inner = self.body.open(&outer, self.pass)?;
            match &mut inner {
                Inner::Tree(tree) => tree.restore(state)?,
                Inner::Source(source) => guarded(self.body.name(), || source.advance(read))?,
            }
            self.current = Some(Current { outer, inner, read });
        }
        self.input.restore(state)
    }
}
