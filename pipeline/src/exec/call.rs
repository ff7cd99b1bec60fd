//! Calls of map functions: the trait that functions implement, and the only code that calls them. No panic
//! leaves this module, and every failure names its function and its element.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::{ErrorKind, ExecError, Origin};
use super::faults::Faults;
use super::item::Item;
use super::token;
use super::value::{Tensor, Value};

/// A map function ready to be called from any thread.
pub(crate) trait Call: Send + Sync {
    /// Returns the name that errors show.
    fn name(&self) -> &str;

    /// Transforms one element. `None` leaves the element out.
    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError>;
}

/// The position of an element, as its functions see it.
#[cfg_attr(
    not(feature = "images"),
    expect(dead_code, reason = "only image functions use the position")
)]
pub(crate) struct Place<'p> {
    pub(crate) position: u64,
    pub(crate) pass: u64,
    pub(crate) origin: Option<&'p Origin>,
}

/// Functions that are applied one after the other, as one step.
pub(crate) type Chain = Arc<[Box<dyn Call>]>;

/// Applies the functions of `chain` to `item` in pass `pass`. Returns `None` if a function left the element
/// out, or if a function failed and `faults` left the element out. A returned failure abandons the splits of
/// the element, so that the splits never count as finished.
pub(crate) fn run(
    chain: &[Box<dyn Call>],
    item: Item,
    pass: u64,
    faults: &Faults,
) -> Result<Option<Item>, ExecError> {
    let name = || chain.first().map_or("map", |call| call.name()).to_owned();
    if faults.excludes(name, item.position) {
        return Ok(None);
    }
    let Item {
        value,
        marks,
        position,
        origin,
        numbers,
    } = item;
    let place = Place {
        position,
        pass,
        origin: origin.as_ref(),
    };
    let called = if faults.retries() {
        tried(chain, value, &place, faults)
    } else {
        once(chain, value, &place, faults)
    };
    match called {
        Ok(Some(value)) => Ok(Some(Item {
            value,
            marks,
            position,
            origin,
            numbers,
        })),
        Ok(None) => Ok(None),
        Err(error) => {
            let error = error.at(origin.as_ref()).at_position(position);
            faults.leave_out(error, &marks).map(|()| None)
        }
    }
}

/// Calls each function once. One guard catches the panics of all functions: an element passes many functions,
/// and few panic.
fn once(
    chain: &[Box<dyn Call>],
    value: Value,
    place: &Place<'_>,
    faults: &Faults,
) -> Result<Option<Value>, ExecError> {
    let under_way = Cell::new(0);
    let calls = || {
        let mut value = value;
        for (index, call) in chain.iter().enumerate() {
            under_way.set(index);
            match call.call(value, place)? {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        finished(value, faults).map(Some)
    };
    // The state that a panic leaves behind is dropped with the failed pipeline, or with the element.
    catch_unwind(AssertUnwindSafe(calls)).unwrap_or_else(|panic| {
        let name = chain.get(under_way.get()).map_or("map", |call| call.name());
        Err(panicked(name, &*panic))
    })
}

/// Calls each function on the result of its predecessor until the call succeeds, as often as `faults` allow.
fn tried(
    chain: &[Box<dyn Call>],
    mut value: Value,
    place: &Place<'_>,
    faults: &Faults,
) -> Result<Option<Value>, ExecError> {
    for call in chain {
        let called = faults.tried(|is_last| {
            let given = if is_last {
                std::mem::take(&mut value)
            } else {
                value.clone()
            };
            guarded(call.name(), || call.call(given, place))
        })?;
        match called {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    guarded("map", || finished(value, faults)).map(Some)
}

/// Computes all tensors that might fail when they are written, if `faults` may leave out elements. After
/// the element is written, it could no longer be left out.
fn finished(value: Value, faults: &Faults) -> Result<Value, ExecError> {
    if faults.may_leave_out() {
        value.into_iter().map(ascertained).collect()
    } else {
        Ok(value)
    }
}

/// Computes `tensor`, unless its computation never fails.
fn ascertained(tensor: Tensor) -> Result<Tensor, ExecError> {
    if tensor.is_certain() {
        Ok(tensor)
    } else {
        tensor.settled()
    }
}

/// Returns `item` with all deferred computations done. A failure abandons the item's splits.
pub(crate) fn settled(item: Item) -> Result<Item, ExecError> {
    computed(item, |tensor| tensor.settled())
}

/// Returns `item` with all deferred computations done that could fail. A failure abandons the item's splits.
pub(crate) fn certain(item: Item) -> Result<Item, ExecError> {
    computed(item, ascertained)
}

fn computed(
    mut item: Item,
    compute: impl Fn(Tensor) -> Result<Tensor, ExecError>,
) -> Result<Item, ExecError> {
    let value: Result<Value, ExecError> = std::mem::take(&mut item.value).into_iter().map(compute).collect();
    item.value = value.map_err(|error| {
        token::abandon(&item.marks);
        error
            .at(item.origin.as_ref())
            .at_position(item.position)
            .of_element()
    })?;
    Ok(item)
}

/// Calls `function` and turns a panic into an error that names the function.
pub(crate) fn guarded<T>(
    name: &str,
    function: impl FnOnce() -> Result<T, ExecError>,
) -> Result<T, ExecError> {
    // The state that a panic leaves behind is dropped with the failed pipeline.
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| Err(panicked(name, &*panic)))
}

fn panicked(name: &str, panic: &(dyn Any + Send)) -> ExecError {
    let message = format!("panicked: {}", panic_message(panic));
    ExecError::new(ErrorKind::UserFunction, name, message)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "without a message",
    }
}
