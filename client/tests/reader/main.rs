//! A reader over real workers in this process, whatever their links do.

mod coordinated;
mod delivery;
mod failures;
mod leaving;
mod places;
mod support;
mod waits;
mod waking;
