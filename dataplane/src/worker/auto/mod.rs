//! Decides whether compressing a task's packs saves time on one link (`Compression::Auto`).
//!
//! - `choice` decides for each pack whether it is compressed.
//! - `meter` measures where a task's credits are, which shows the bottleneck, and how much the link delivers.
//! - `codec` measures the gain and the cost of compression by samples.
//!
//! The modules are pure: the caller reports packs, grants, samples and the time. Links, pools and bytes are
//! unknown to them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod choice;
mod codec;
mod meter;
#[cfg(test)]
mod simulation;

pub(super) use choice::{Auto, Plan};
pub(super) use codec::Sample;
pub(super) use meter::Standing;
