//! The execution of `service`, which reads another service. The owner of the executor provides a
//! factory that opens the reader.

use std::sync::Arc;

use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::{OpenPass, OpenService};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::{ExternalState, ServiceReader};

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::exec::yielded::check;
use crate::graph::codec::decode_params;

/// The entry of `service` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["service"]],
    decode: decode_params::<definition::ServiceReader>,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::ServiceReader>()?.clone();
    let factory = preparing.means.service().ok_or(OpenError::NoServiceReader)?;
    prepared(move |opening| {
        Ok(Box::new(Service::new(
            operation.clone(),
            Arc::clone(&factory),
            opening.shared,
        )))
    })
}

pub(crate) struct Service {
    reader: ServiceReader,
    factory: Arc<OpenService>,
    cancel: Cancel,
    external_state: ExternalState,
    /// The number of the next pass. Starts with the first pass of the execution or of the function
    /// body, and grows by one per restart.
    pass: u64,
    // The order of these fields matters: `open` is a pass of `passes`, so `open` must be dropped first.
    open: Option<Box<dyn Source>>,
    passes: Option<OpenPass>,
    ended: bool,
    /// Whether the pass that has ended has other readers too.
    was_shared: bool,
    position: u64,
}

impl Service {
    pub(crate) fn new(reader: ServiceReader, factory: Arc<OpenService>, shared: &Shared) -> Service {
        Service {
            reader,
            factory,
            cancel: shared.cancel.clone(),
            external_state: shared.external_state,
            pass: shared.first_pass,
            open: None,
            passes: None,
            ended: false,
            was_shared: false,
            position: 0,
        }
    }

    fn opened(&mut self) -> Result<&mut Box<dyn Source>, ExecError> {
        if self.open.is_none() {
            let passes = match &mut self.passes {
                Some(passes) => passes,
                None => {
                    let connected = guarded("service", || (self.factory)(&self.reader.params, &self.cancel))?;
                    self.passes.insert(connected)
                }
            };
            self.open = Some(guarded("service", || passes(self.pass))?);
        }
        self.open
            .as_mut()
            .ok_or_else(|| ExecError::new(ErrorKind::Internal, "service", "the reader is not open"))
    }
}

impl Iterate for Service {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.ended {
            return Ok(None);
        }
        let source = self.opened()?;
        let Some(value) = guarded("service", || source.next())? else {
            self.was_shared = source.is_shared();
            self.ended = true;
            self.open = None;
            return Ok(None);
        };
        check("service", &self.reader.spec.0, &value)?;
        let position = self.position;
        self.position += 1;
        Ok(Some(Item::new(value, position)))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.open = None;
        (self.ended, self.position) = (false, 0);
        self.pass = self.pass.wrapping_add(1);
        Ok(())
    }

    fn further(&self) -> Further {
        if self.reader.count == Some(0) {
            Further::Nothing
        } else if self.was_shared {
            Further::Shared
        } else {
            Further::Open
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        if self.reader.resumable {
            state.begin("service")?;
            state.number(self.pass)?;
            state.flag(self.ended)?;
            let position = match self.ended {
                true => None,
                false => self.opened()?.position(),
            };
            return state.bytes(&position.unwrap_or_default());
        }
        match self.external_state {
            ExternalState::Fail => return Err(unsupported()),
            ExternalState::Warn => tracing::warn!(
                "a saved state does not cover elements of another service: after a restore, the current pass starts again"
            ),
            ExternalState::Ignore => {}
        }
        state.begin("service")?;
        state.number(self.pass)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        if self.reader.resumable {
            state.begin("service")?;
            self.pass = state.number()?;
            self.ended = state.flag()?;
            let position = state.bytes()?;
            return match self.ended {
                true => Ok(()),
                false => self
                    .opened()?
                    .continue_at(position)
                    .map_err(StateError::Malformed),
            };
        }
        if self.external_state == ExternalState::Fail {
            return Err(unsupported());
        }
        state.begin("service")?;
        self.pass = state.number()?;
        Ok(())
    }
}

fn unsupported() -> StateError {
    StateError::Unsupported {
        op: "service".to_owned(),
        reason: "the workers of the service decide the next element; the option external_state can exclude the service",
    }
}
