//! Tests of a reader with real workers in this process, over links that fail on purpose.

mod coordinated;
mod delivery;
mod failures;
mod leaving;
mod places;
mod support;
mod waits;
mod waking;
mod watching;
