//! Calls of map functions: the trait they share, and the one place where they are made, so that no panic
//! passes and every failure names its function and its element.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::{ErrorKind, ExecError, Origin};
use super::item::Item;
use super::token;
use super::value::{Tensor, Value};

/// A map function ready to be called from any thread.
pub(crate) trait Call: Send + Sync {
    /// The name to show.
    fn name(&self) -> &str;

    /// Transforms one element; `None` leaves it out.
    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError>;
}

/// Where an element is, as its functions see it.
#[cfg_attr(
    not(feature = "images"),
    expect(dead_code, reason = "only image functions ask where they are")
)]
pub(crate) struct Place<'p> {
    pub(crate) position: u64,
    pub(crate) pass: u64,
    pub(crate) origin: Option<&'p Arc<Origin>>,
}

/// Functions applied one after the other, as one step.
pub(crate) type Chain = Arc<[Box<dyn Call>]>;

/// Sends `item` through `chain` in pass `pass`. `None` when a function left it out. A failure abandons the
/// splits of the element, so that they never count as finished.
pub(crate) fn run(chain: &[Box<dyn Call>], item: Item, pass: u64) -> Result<Option<Item>, ExecError> {
    let Item {
        mut value,
        marks,
        position,
        origin,
    } = item;
    for call in chain {
        let place = Place {
            position,
            pass,
            origin: origin.as_ref(),
        };
        let result = guarded(call.name(), || call.call(value, &place));
        match result {
            Ok(Some(next)) => value = next,
            Ok(None) => return Ok(None),
            Err(error) => {
                token::abandon(&marks);
                return Err(error.at(origin.as_ref()).at_position(position).of_element());
            }
        }
    }
    Ok(Some(Item {
        value,
        marks,
        position,
        origin,
    }))
}

/// `item` with everything computed that was left to be done when it is written. A failure abandons its splits.
pub(crate) fn settled(mut item: Item) -> Result<Item, ExecError> {
    let value: Result<Value, ExecError> = item.value.iter().map(Tensor::settled).collect();
    item.value = value.map_err(|error| {
        token::abandon(&item.marks);
        error
            .at(item.origin.as_ref())
            .at_position(item.position)
            .of_element()
    })?;
    Ok(item)
}

/// Calls `function`, turning a panic into an error that names it.
pub(crate) fn guarded<T>(
    name: &str,
    function: impl FnOnce() -> Result<T, ExecError>,
) -> Result<T, ExecError> {
    // Whatever the panic left behind is dropped with the failed pipeline.
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| {
        Err(ExecError::new(
            ErrorKind::UserFunction,
            name,
            format!("panicked: {}", panic_message(&*panic)),
        ))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "without a message",
    }
}
