//! The rules that an operation's parameters obey by themselves. What depends on what comes in is the analysis'.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::dataset::AUTO;
use super::definition::{BUFFER_MAX, CYCLE_MAX, NAME_BYTES_MAX};
use super::function::Function;
use super::group::WindowSize;
use super::op::{Cycle, FlatMap, Op, Schedule};

/// Calls that run, or datasets that are read, at once, each in a thread of its own.
const PARALLEL_MAX: u32 = 4096;

/// The rules that parameters obey by themselves, given how many inputs there are; what depends on the spec of those is
/// checked by the analysis.
pub(super) fn check_params(op: &Op, inputs: usize) -> Result<(), String> {
    match op {
        Op::Range(range) if range.step == 0 => Err("step is 0".to_owned()),
        Op::Range(_)
        | Op::Counter(_)
        | Op::Random(_)
        | Op::Argument
        | Op::Unbatch
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Enumerate(_)
        | Op::Concatenate
        | Op::Choose(..) => Ok(()),
        Op::Options(options) => options.check(),
        Op::Sample(sample) => check_weights(&sample.weights, inputs),
        Op::Tensors(tensors) => tensors.constant.check(),
        Op::TensorSlices(slices) => slices.constant.slices().map(|_| ()),
        Op::Read(format) => format.check(),
        Op::Files(files) => check_name("pattern", &files.pattern),
        Op::Source(source) => check_name("source", &source.name),
        Op::Service(_) => Ok(()),
        Op::Map(function, schedule) => {
            check_schedule(*schedule)?;
            check_function(function)
        }
        Op::Filter(predicate) | Op::TakeWhile(predicate) => predicate.check(),
        Op::Batch(batch) => check_buffer("batch size", batch.size),
        Op::RaggedBatch(batch) => check_buffer("batch size", batch.size),
        Op::PaddedBatch(batch) => check_buffer("batch size", batch.size),
        Op::GroupByWindow(grouping) => match &grouping.size {
            WindowSize::Fixed(size) => check_buffer("window", *size),
            WindowSize::ByKey(_) => Ok(()),
        },
        Op::Window(_, window) => window.check(),
        Op::Bucket(_, buckets) => buckets.check(),
        Op::Shuffle(shuffle) => check_buffer("shuffle buffer", shuffle.buffer),
        Op::Shard(shard) => match shard.count {
            Some(count) if shard.index >= count => Err(format!(
                "takes shard {} of {count}: shards are numbered from 0",
                shard.index
            )),
            Some(_) | None => Ok(()),
        },
        Op::Prefetch(prefetch) if prefetch.buffer == u64::from(AUTO) => Ok(()),
        Op::Prefetch(prefetch) => check_buffer("prefetch buffer", prefetch.buffer),
        Op::Step(step) => step.check(),
        Op::Fold(fold) => fold.check(),
        Op::Kept(kept) => kept.check(),
        Op::FlatMap(function) => check_flat_map(function),
        Op::Interleave(function, cycle) => {
            check_cycle(*cycle)?;
            check_flat_map(function)
        }
        Op::Zip(zip) => match &zip.names {
            Some(names) if names.len() != inputs => {
                Err(format!("has {} names for {inputs} inputs", names.len()))
            }
            Some(names) => names.iter().try_for_each(|name| check_name("name", name)),
            None => Ok(()),
        },
    }
}

/// Refuses a name that is none, or that comes twice.
pub(super) fn check_names<'n>(
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

fn check_schedule(schedule: Schedule) -> Result<(), String> {
    if schedule.parallel > PARALLEL_MAX {
        return Err(format!(
            "{} threads in parallel, the limit is {PARALLEL_MAX}",
            schedule.parallel
        ));
    }
    Ok(())
}

fn check_cycle(cycle: Cycle) -> Result<(), String> {
    if cycle.length == 0 || cycle.length > CYCLE_MAX {
        return Err(format!(
            "cycle of {} datasets is not within 1..={CYCLE_MAX}",
            cycle.length
        ));
    }
    if cycle.block == 0 {
        return Err("takes blocks of no elements by turns; the least is 1".to_owned());
    }
    check_schedule(cycle.schedule)
}

fn check_weights(weights: &[f64], inputs: usize) -> Result<(), String> {
    if weights.len() != inputs {
        return Err(format!("has {} weights for {inputs} inputs", weights.len()));
    }
    match weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight > 0.0))
    {
        Some(weight) => Err(format!(
            "has the weight {weight}, which is not a finite number above 0"
        )),
        // Each is finite, their sum need not be.
        None if !weights.iter().sum::<f64>().is_finite() => {
            Err("has weights without a finite sum".to_owned())
        }
        None => Ok(()),
    }
}

fn check_flat_map(function: &FlatMap) -> Result<(), String> {
    match function {
        FlatMap::Graph(_) => Ok(()),
        FlatMap::Registered(registered) => check_name("function", &registered.name),
    }
}

fn check_function(function: &Function) -> Result<(), String> {
    match function {
        Function::Registered(registered) => check_name("function", &registered.name),
        Function::Image(image) => {
            check_component(image.component())?;
            image.check()
        }
        Function::Native(native) => native.check(),
    }
}

/// The empty name is the only component.
fn check_component(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Ok(());
    }
    check_name("component", name)
}

pub(super) fn check_name(what: &str, name: &str) -> Result<(), String> {
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

pub(super) fn check_buffer(what: &str, size: u64) -> Result<(), String> {
    if size == 0 || size > BUFFER_MAX {
        return Err(format!("{what} of {size} is not within 1..={BUFFER_MAX}"));
    }
    Ok(())
}
