//! Whether compressing a task's packs saves time on one link (`Compression::Auto`).
//!
//! - `choice`: decides how each pack travels
//! - `meter`: where the credits of the task are, and so what holds it up; what the link delivers
//! - `codec`: what compressing comes to and costs, by samples
//!
//! Pure: told of packs, grants, samples and the time. Refuses to know links, pools and bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod choice;
mod codec;
mod meter;
#[cfg(test)]
mod simulation;

pub(super) use choice::{Auto, Plan};
pub(super) use codec::Sample;
pub(super) use meter::Standing;
