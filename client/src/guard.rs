//! A guard against panics in a part of the reader. The guard turns a panic into an error for the consumer,
//! which would otherwise wait forever.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::error::ReadError;
use crate::intake::Intake;

/// Runs `part` of the reader, and fails the reader if it panics.
pub(crate) async fn guard(intake: Arc<Intake>, what: String, part: impl Future<Output = ()>) {
    // Unwind safety: after the panic, the state of the part is reached only through the intake's lock, and
    // reading ends.
    if let Err(panic) = AssertUnwindSafe(part).catch_unwind().await {
        let message = message_of(&*panic);
        intake.fail(ReadError::Internal { what, message });
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
