//! The dataset that a function makes from one element or from a window of elements. A body is executed again
//! for each argument; a registered function opens a source instead. This module does not know the order in
//! which several datasets are read.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::exec::call::guarded;
use crate::exec::context::Shared;
use crate::exec::error::{BoxError, ErrorKind, ExecError, Origin};
use crate::exec::functions::SitedFlatMapCall;
use crate::exec::item::Item;
use crate::exec::iterate::Input;
use crate::exec::program::Program;
use crate::exec::random::{Seeds, mix};
use crate::exec::site::Site;
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};

use crate::exec::yielded::check;

/// Constructor of a dataset from an element.
pub(crate) enum Body {
    Program {
        program: Arc<Program>,
        shared: Shared,
    },
    Registered {
        name: String,
        call: SitedFlatMapCall,
        output: ElementSpec,
        seeds: Seeds,
        shared: Shared,
    },
}

/// The arguments from which a function makes a dataset.
pub(crate) struct Given {
    /// The argument elements, without their marks. Elements of the dataset take their marks from `marks`.
    items: Arc<[Item]>,
    /// The splits that all arguments together stand for.
    marks: Marks,
    /// The position of the first argument.
    position: u64,
    /// The record of the argument, if there is exactly one argument.
    origin: Option<Origin>,
}

/// A dataset that is being read.
pub(crate) struct Opened {
    given: Given,
    inner: Inner,
    /// The number of elements read from the dataset.
    read: u64,
    /// Whether the dataset has failed with an error after which it cannot continue.
    is_over: bool,
    /// The pass over the datasets.
    pass: u64,
}

/// Returns the position by which the dataset of the argument at `position` is quarantined as a whole. Other
/// parts of the calling operation, such as the key of a group, use the position itself.
fn named(position: u64, pass: u64) -> u64 {
    mix(mix(position, pass), 1)
}

enum Inner {
    Tree(Input),
    Source(Box<dyn Source>),
    /// A dataset that failed to open, and is not read any more.
    Unopened,
}

impl Opened {
    /// Returns the position by which the next row of the dataset is quarantined.
    fn row(&self) -> u64 {
        mix(named(self.given.position, self.pass), self.read)
    }
}

impl Given {
    /// Returns the arguments that consist of one element.
    pub(crate) fn element(mut item: Item) -> Given {
        let marks = std::mem::take(&mut item.marks);
        Given {
            position: item.position,
            origin: item.origin.clone(),
            items: Arc::new([item]),
            marks,
        }
    }

    /// Returns the arguments that consist of several elements.
    pub(crate) fn window(mut items: Vec<Item>) -> Given {
        let mut marks = Marks::new();
        for item in &mut items {
            token::merge(&mut marks, std::mem::take(&mut item.marks));
        }
        Given {
            position: items.first().map_or(0, |item| item.position),
            origin: None,
            items: items.into(),
            marks,
        }
    }

    fn save(&self, state: &mut StateWriter) -> Result<(), StateError> {
        if !self.marks.is_empty() {
            return Err(StateError::SplitDriven);
        }
        state.number(self.items.len() as u64)?;
        self.items.iter().try_for_each(|item| state.item(item))
    }

    fn restored(state: &mut StateReader<'_>) -> Result<Given, StateError> {
        let mut items = Vec::new();
        for _ in 0..state.number()? {
            items.push(state.item()?);
        }
        let origin = match &items[..] {
            [only] => only.origin.clone(),
            _ => None,
        };
        Ok(Given {
            origin,
            ..Given::window(items)
        })
    }
}

impl Body {
    /// Returns a body that executes `program` for each dataset.
    pub(crate) fn program(program: &Arc<Program>, shared: &Shared) -> Body {
        Body::Program {
            program: Arc::clone(program),
            shared: shared.clone(),
        }
    }

    /// Opens the dataset of `given` in pass `pass` over the elements. A body makes new random draws in every
    /// pass.
    pub(crate) fn open(&self, given: Given, pass: u64) -> Result<Opened, ExecError> {
        let inner = match self.excludes(named(given.position, pass)) {
            true => Ok(Inner::Unopened),
            false => self.inner(&given, pass),
        };
        let inner = match inner {
            Ok(inner) => inner,
            Err(error) => {
                let error = error.at(given.origin.as_ref()).at_position(given.position);
                let error = self.identified(error, named(given.position, pass));
                self.leave_out(error, &given.marks)?;
                Inner::Unopened
            }
        };
        let is_over = matches!(inner, Inner::Unopened);
        Ok(Opened {
            given,
            inner,
            read: 0,
            is_over,
            pass,
        })
    }

    /// Returns the next element of `opened`, with the marks of the arguments of the dataset.
    pub(crate) fn next(&self, opened: &mut Opened) -> Result<Option<Item>, ExecError> {
        let mut item = loop {
            // A quarantined row stands for all later rows, too. Most operations of a body name their own
            // elements.
            opened.is_over |= self.may_exclude() && self.excludes(opened.row());
            if opened.is_over {
                return Ok(None);
            }
            match self.pull(&mut opened.inner) {
                Ok(Some(item)) => break item,
                Ok(None) => return Ok(None),
                Err(error) => {
                    // The dataset continues after the failure of one element, and ends with any other
                    // failure.
                    opened.is_over = !error.is_passable();
                    let error = self.identified(error, opened.row());
                    let error = error.at_position(opened.given.position);
                    self.leave_out(error, &opened.given.marks)?;
                }
            }
        };
        item.marks = opened.given.marks.clone();
        item.position = mix(opened.given.position, opened.read);
        item.origin = item.origin.or_else(|| opened.given.origin.clone());
        opened.read = opened.read.wrapping_add(1);
        Ok(Some(item))
    }

    pub(crate) fn save(opened: &mut Opened, state: &mut StateWriter) -> Result<(), StateError> {
        opened.given.save(state)?;
        state.number(opened.read)?;
        state.flag(opened.is_over)?;
        match &mut opened.inner {
            Inner::Tree(tree) if !opened.is_over => tree.save(state),
            Inner::Tree(_) | Inner::Source(_) | Inner::Unopened => Ok(()),
        }
    }

    /// Restores a dataset that [`Body::save`] saved in pass `pass`.
    pub(crate) fn restore(&self, state: &mut StateReader<'_>, pass: u64) -> Result<Opened, StateError> {
        let given = Given::restored(state)?;
        let (read, is_over) = (state.number()?, state.flag()?);
        let mut inner = if is_over {
            Inner::Unopened
        } else {
            self.inner(&given, pass)?
        };
        match &mut inner {
            Inner::Tree(tree) => tree.restore(state)?,
            Inner::Source(source) => guarded(self.name(), || source.advance(read))?,
            Inner::Unopened => {}
        }
        Ok(Opened {
            given,
            inner,
            read,
            is_over,
            pass,
        })
    }

    fn inner(&self, given: &Given, pass: u64) -> Result<Inner, ExecError> {
        match self {
            Body::Program { program, shared } => {
                let within = shared.within(mix(given.position, pass), pass);
                program.open(&within, Some(&given.items)).map(Inner::Tree)
            }
            Body::Registered {
                name,
                call,
                seeds,
                shared,
                ..
            } => {
                // A function reports details of a failure, such as a traceback, as an `ExecError`.
                let failed = |error: BoxError| match error.downcast::<ExecError>() {
                    Ok(error) => *error,
                    Err(error) => ExecError::new(ErrorKind::UserFunction, &**name, error.to_string()),
                };
                let site = Site::new(seeds, pass, given.position, &shared.cancel);
                let open = || {
                    // A registered function receives one element: only bodies receive windows.
                    let value = given.items.first().map(|item| item.value.clone());
                    call(value.unwrap_or_default(), &site).map_err(failed)
                };
                guarded(name, open).map(Inner::Source)
            }
        }
    }

    fn pull(&self, inner: &mut Inner) -> Result<Option<Item>, ExecError> {
        match inner {
            Inner::Tree(tree) => tree.next(),
            Inner::Unopened => Ok(None),
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

    /// Returns whether the element at `position`, or the rest of a dataset from its row at `position` on, is
    /// quarantined.
    fn excludes(&self, position: u64) -> bool {
        self.may_exclude()
            && self
                .shared()
                .faults()
                .excludes(|| self.name().to_owned(), position)
    }

    /// Returns whether any element of the split is quarantined.
    fn may_exclude(&self) -> bool {
        let quarantine = self.shared().quarantine.as_ref();
        quarantine.is_some_and(|ids| !ids.is_empty())
    }

    /// Adds the id of an element or a row to a failure. An operation of the body may have added the id of its
    /// own element before.
    fn identified(&self, error: ExecError, position: u64) -> ExecError {
        self.shared().faults().identified(error, position)
    }

    fn shared(&self) -> &Shared {
        let (Body::Program { shared, .. } | Body::Registered { shared, .. }) = self;
        shared
    }

    /// Leaves out the failed part of a dataset, or returns `error`, as the error policy says. `marks` are the
    /// marks of the dataset's arguments.
    fn leave_out(&self, error: ExecError, marks: &Marks) -> Result<(), ExecError> {
        let shared = self.shared();
        shared.faults().leave_out(error.stand_within(shared.node), marks)
    }

    /// Returns the name that errors of a source show. The operations of a body show their own names.
    fn name(&self) -> &str {
        match self {
            Body::Program { .. } => "body",
            Body::Registered { name, .. } => name,
        }
    }
}
