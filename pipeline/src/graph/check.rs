//! Checks for parameters that several operations have. The checks need no knowledge of an operation's input.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::limits::{BUFFER_MAX, CYCLE_MAX, NAME_BYTES_MAX};
use super::schedule::{Cycle, Schedule};

/// The maximum number of calls that run in parallel, or datasets that are read in parallel, each in its own
/// thread.
const PARALLEL_MAX: u32 = 4096;

/// Refuses names that are empty or too long, and names that occur twice.
pub(crate) fn check_names<'n>(
    what: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), String> {
    for (index, name) in names.clone().enumerate() {
        check_name(what, name)?;
        if names.clone().take(index).any(|earlier| earlier == name) {
            return Err(format!("names the {what} {name:?} twice"));
        }
    }
    Ok(())
}

pub(crate) fn check_schedule(schedule: Schedule) -> Result<(), String> {
    if schedule.parallel > PARALLEL_MAX {
        return Err(format!(
            "uses {} threads in parallel, the limit is {PARALLEL_MAX}",
            schedule.parallel
        ));
    }
    Ok(())
}

pub(crate) fn check_cycle(cycle: Cycle) -> Result<(), String> {
    if cycle.length == 0 || cycle.length > CYCLE_MAX {
        return Err(format!(
            "has a cycle of {} datasets, expected 1 to {CYCLE_MAX}",
            cycle.length
        ));
    }
    if cycle.block == 0 {
        return Err("has a block of 0 elements, the least is 1".to_owned());
    }
    check_schedule(cycle.schedule)
}

/// Checks the name of a component. The empty name is allowed, and means the only component.
pub(crate) fn check_component(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Ok(());
    }
    check_name("component", name)
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "{what} has {} bytes, the limit is {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    Ok(())
}

pub(crate) fn check_buffer(what: &str, size: u64) -> Result<(), String> {
    if size == 0 || size > BUFFER_MAX {
        return Err(format!("{what} of {size} is not within 1..={BUFFER_MAX}"));
    }
    Ok(())
}
