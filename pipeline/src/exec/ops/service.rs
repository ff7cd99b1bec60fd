//! `service`: a reader of another service, opened by the factory that whoever runs the executor provides.

use std::sync::Arc;

use crate::exec::call::guarded;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::OpenService;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::ServiceReader;

use super::source::check;

pub(crate) struct Service {
    reader: ServiceReader,
    factory: Arc<OpenService>,
    pass: u64,
    open: Option<Box<dyn Source>>,
    ended: bool,
    position: u64,
}

impl Service {
    pub(crate) fn new(reader: ServiceReader, factory: Arc<OpenService>) -> Service {
        Service {
            reader,
            factory,
            pass: 0,
            open: None,
            ended: false,
            position: 0,
        }
    }

    fn opened(&mut self) -> Result<&mut Box<dyn Source>, ExecError> {
        if self.open.is_none() {
            self.open = Some(guarded("service", || {
                (self.factory)(&self.reader.params, self.pass)
            })?);
        }
        self.open
            .as_mut()
            .ok_or_else(|| ExecError::new(ErrorKind::Internal, "service", "is not open"))
    }
}

impl Iterate for Service {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.ended {
            return Ok(None);
        }
        let source = self.opened()?;
        let Some(value) = guarded("service", || source.next())? else {
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
        Further::Open
    }

    fn save(&mut self, _: &mut StateWriter) -> Result<(), StateError> {
        Err(unsupported())
    }

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(unsupported())
    }
}

fn unsupported() -> StateError {
    StateError::Unsupported {
        op: "service".to_owned(),
        reason: "what a service yields next is decided by its workers",
    }
}
