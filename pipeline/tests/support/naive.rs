//! The naive model: the result of each step of a chain on a vector.

use std::collections::VecDeque;

use millstream_pipeline::graph::Window;

use super::{Model, Step, sum};

/// Applies `step` to `input`, without shuffling.
pub(crate) fn model_step(input: Vec<Model>, step: &Step) -> Vec<Model> {
    match step {
        Step::Add { amount, .. } | Step::AddExpr(amount) => {
            input.iter().map(|model| model_add(model, *amount)).collect()
        }
        Step::KeepIfSumModulo { modulus, rest } | Step::KeepExpr { modulus, rest } => input
            .into_iter()
            .filter(|model| sum(model).rem_euclid(*modulus) == *rest)
            .collect(),
        Step::Batch { size, drop_remainder } => rebatched(&input, &[*size], *drop_remainder),
        Step::Unbatch => input.into_iter().flat_map(rows).collect(),
        Step::Rebatch {
            batch: _,
            sizes,
            drop_remainder,
        } => rebatched(&input, sizes, *drop_remainder),
        Step::Unique(modulus) => unique(&input, *modulus),
        Step::Scan(initial) => scanned(&input, *initial),
        Step::Reduce(initial) => vec![Model::Scalar(initial + input.iter().map(sum).sum::<i64>())],
        Step::Ignore { modulus, .. } => {
            let passes = |model: &Model| sum(model).rem_euclid(*modulus) != 0;
            input.into_iter().filter(passes).collect()
        }
        Step::Repeat(count) | Step::ShuffleAndRepeat { count, .. } => {
            (0..*count).flat_map(|_| input.clone()).collect()
        }
        Step::Take(count) => input.into_iter().take(*count as usize).collect(),
        Step::Skip(count) => input.into_iter().skip(*count as usize).collect(),
        Step::Shard { count, index } => sharded(input, *count as usize, *index as usize),
        Step::Enumerate(start) => {
            let numbered = input.iter().zip(*start..);
            numbered.map(|(model, number)| model_add(model, number)).collect()
        }
        Step::Prefetch(_) | Step::Shuffle { .. } | Step::Measured | Step::Cache => input,
        Step::FlatMap(steps) => each_reduced(input.into_iter().map(|model| vec![model]), steps),
        Step::Interleave {
            length, block, steps, ..
        } => {
            let inner = input
                .into_iter()
                .map(|model| steps.iter().fold(vec![model], model_step));
            by_turns(inner.collect(), *length as usize, *block as usize)
        }
        Step::GroupByWindow { modulus, size, steps } => {
            each_reduced(grouped(&input, *modulus, *size as usize), steps)
        }
        Step::Window { window, steps } => each_reduced(windows(&input, window), steps),
        Step::TakeWhileSumBelow(bound) | Step::TakeWhileExpr(bound) => {
            let below = input.into_iter().take_while(|model| sum(model) < *bound);
            below.collect()
        }
        Step::Concatenate(other) => input.into_iter().chain(other.model()).collect(),
        Step::Choose {
            choices,
            repeat,
            other,
            stop_on_empty,
        } => chosen(numbers(*choices, *repeat), [input, other.model()], *stop_on_empty),
        // A sample yields its elements in a random order, like a shuffle, so any order serves.
        Step::Sample { other, .. } => input.into_iter().chain(other.model()).collect(),
        Step::Zip(other) => {
            let pairs = input.iter().zip(other.model());
            pairs.map(|(one, other)| model_add(one, sum(&other))).collect()
        }
    }
}

fn scanned(input: &[Model], initial: i64) -> Vec<Model> {
    let mut state = initial;
    let mut all = Vec::new();
    for number in input.iter().map(sum) {
        all.push(Model::Scalar(state + 2 * number));
        state += number;
    }
    all
}

fn sharded(input: Vec<Model>, count: usize, index: usize) -> Vec<Model> {
    input.into_iter().skip(index).step_by(count).collect()
}

/// Returns the remainders of the elements' sums, without repetitions.
fn unique(input: &[Model], modulus: i64) -> Vec<Model> {
    let mut seen = Vec::new();
    for key in input.iter().map(|model| sum(model).rem_euclid(modulus)) {
        if !seen.contains(&key) {
            seen.push(key);
        }
    }
    seen.into_iter().map(Model::Scalar).collect()
}

/// Cuts the elements into batches, whose sizes cycle through `sizes`.
fn rebatched(input: &[Model], sizes: &[u64], drop_remainder: bool) -> Vec<Model> {
    let (mut left, mut all) = (input, Vec::new());
    for size in sizes.iter().cycle() {
        let taken = (*size as usize).min(left.len());
        if taken == 0 || (drop_remainder && (taken as u64) < *size) {
            break;
        }
        all.push(Model::Rows(left[..taken].to_vec()));
        left = &left[taken..];
    }
    all
}

fn rows(model: Model) -> Vec<Model> {
    match model {
        Model::Rows(rows) => rows,
        Model::Scalar(_) => panic!("expected rows, found a scalar"),
    }
}

/// Returns the windows of elements whose sums have the same remainder, in the order in which the
/// windows become full. The partial windows follow at the end.
fn grouped(input: &[Model], modulus: i64, size: usize) -> Vec<Vec<Model>> {
    let mut windows = Vec::new();
    let mut open: Vec<Vec<Model>> = vec![Vec::new(); modulus as usize];
    for model in input {
        let group = &mut open[sum(model).rem_euclid(modulus) as usize];
        group.push(model.clone());
        if group.len() == size {
            windows.push(std::mem::take(group));
        }
    }
    windows.extend(open.into_iter().filter(|group| !group.is_empty()));
    windows
}

fn windows(input: &[Model], window: &Window) -> Vec<Vec<Model>> {
    let begins = (0..input.len()).step_by(window.shift as usize);
    let windows = begins.map(|begin| {
        let strided = input[begin..].iter().step_by(window.stride as usize);
        strided.take(window.size as usize).cloned().collect::<Vec<_>>()
    });
    let whole = |found: &Vec<Model>| !window.drop_remainder || found.len() as u64 == window.size;
    windows.filter(whole).collect()
}

/// Returns the elements of `inputs` that the indices `numbers` choose.
fn chosen(numbers: impl Iterator<Item = usize>, inputs: [Vec<Model>; 2], stop_on_empty: bool) -> Vec<Model> {
    let mut inputs = inputs.map(VecDeque::from);
    let mut all = Vec::new();
    for number in numbers {
        match inputs[number].pop_front() {
            Some(model) => all.push(model),
            None if stop_on_empty => break,
            None if inputs.iter().all(VecDeque::is_empty) => break,
            None => {}
        }
    }
    all
}

/// Returns the elements of `waiting` in turn. A slot whose dataset has ended takes the next dataset at
/// its next turn.
fn by_turns(mut waiting: VecDeque<Vec<Model>>, length: usize, block: usize) -> Vec<Model> {
    let mut slots: Vec<Option<VecDeque<Model>>> = vec![None; length];
    let mut all = Vec::new();
    while !waiting.is_empty() || slots.iter().any(Option::is_some) {
        for slot in &mut slots {
            if slot.is_none() {
                *slot = waiting.pop_front().map(VecDeque::from);
            }
            let Some(open) = slot else { continue };
            let taken = block.min(open.len());
            all.extend(open.drain(..taken));
            // A reader notices the end of a dataset only when it asks for another element.
            if taken < block {
                *slot = None;
            }
        }
    }
    all
}

fn model_add(model: &Model, amount: i64) -> Model {
    match model {
        Model::Scalar(value) => Model::Scalar(value + amount),
        Model::Rows(rows) => Model::Rows(rows.iter().map(|row| model_add(row, amount)).collect()),
    }
}

/// Returns the indices of `picks`, repeated `repeat` times.
fn numbers(choices: i64, repeat: Option<u64>) -> impl Iterator<Item = usize> {
    let passes = match repeat {
        _ if choices == 0 => 0,
        Some(repeat) => repeat,
        None => u64::MAX,
    };
    (0..passes).flat_map(move |_| (0..choices).map(|number| (number % 3 % 2) as usize))
}

/// Applies the steps to each of the parts, and joins the results.
fn each_reduced(parts: impl IntoIterator<Item = Vec<Model>>, steps: &[Step]) -> Vec<Model> {
    let reduced = |part| steps.iter().fold(part, model_step);
    parts.into_iter().flat_map(reduced).collect()
}
