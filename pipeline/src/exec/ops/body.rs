//! The dataset that `flat_map` and `interleave` make of an element: the function's body, executed anew with the element
//! as its argument, or whatever a registered function opens. In which order several are read is not known here.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::guarded;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::FlatMapCall;
use crate::exec::item::Item;
use crate::exec::iterate::Input;
use crate::exec::program::Program;
use crate::exec::random::mix;
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;

use super::source::check;

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

/// A dataset being read.
pub(super) struct Opened {
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

impl Body {
    /// The dataset of `outer` in pass `pass` over the elements: a body draws anew in every pass.
    pub(super) fn open(&self, outer: Item, pass: u64) -> Result<Opened, ExecError> {
        let inner = self.inner(&outer, pass).map_err(|error| {
            token::abandon(&outer.marks);
            error.at(outer.origin.as_ref()).at_position(outer.position)
        })?;
        Ok(Opened {
            outer,
            inner,
            read: 0,
        })
    }

    /// The next element of `opened`, which stands for the splits of the element it was made of.
    pub(super) fn next(&self, opened: &mut Opened) -> Result<Option<Item>, ExecError> {
        let next = self.pull(&mut opened.inner).map_err(|error| {
            token::abandon(&opened.outer.marks);
            error.at_position(opened.outer.position)
        });
        let Some(mut item) = next? else { return Ok(None) };
        item.marks = opened.outer.marks.clone();
        item.position = mix(opened.outer.position, opened.read);
        item.origin = item.origin.or_else(|| opened.outer.origin.clone());
        opened.read = opened.read.wrapping_add(1);
        Ok(Some(item))
    }

    pub(super) fn save(opened: &mut Opened, state: &mut StateWriter) -> Result<(), StateError> {
        state.item(&opened.outer)?;
        state.number(opened.read)?;
        match &mut opened.inner {
            Inner::Tree(tree) => tree.save(state),
            Inner::Source(_) => Ok(()),
        }
    }

    /// What [`Body::save`] saved in pass `pass`.
    pub(super) fn restore(&self, state: &mut StateReader<'_>, pass: u64) -> Result<Opened, StateError> {
        let outer = state.item()?;
        let read = state.number()?;
        let mut inner = self.inner(&outer, pass)?;
        match &mut inner {
            Inner::Tree(tree) => tree.restore(state)?,
            Inner::Source(source) => guarded(self.name(), || source.advance(read))?,
        }
        Ok(Opened { outer, inner, read })
    }

    fn inner(&self, outer: &Item, pass: u64) -> Result<Inner, ExecError> {
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

    fn pull(&self, inner: &mut Inner) -> Result<Option<Item>, ExecError> {
        match inner {
            Inner::Tree(tree) => tree.next(),
            Inner::Source(source) => {
                let name = self.name();
                let value = guarded(name, || source.next())?;
                if let (Some(value), Body::Registered { output, .. }) = (&value, self) {
                    check(name, output, value)?;
                }
                Ok(value.map(|value| Item::new(value, 0)))
            }
        }
    }

    /// Whom to name when a source fails; a body's operations name themselves.
    fn name(&self) -> &str {
        match self {
            Body::Program { .. } => "body",
            Body::Registered { name, .. } => name,
        }
    }
}
