//! Reduction of items along axes.

use millstream_element::Dtype;
use smallvec::SmallVec;

use crate::exec::value::{Dims, Tensor};
use crate::graph::{Reduce, Reduction, axis_of};

use super::items::{Item, built, bytes_of, count, items};
use super::number::{Float, Number, no_number, with_float, with_number};

/// Reduces `of` as `reduce` states.
pub(crate) fn reduced(of: &Tensor, reduce: &Reduce) -> Result<Tensor, String> {
    let plan = Plan::new(of.dims(), reduce)?;
    let dtype = of.dtype();
    let bytes = bytes_of(of)?;
    if matches!(reduce.kind, Reduction::Max | Reduction::Min) && count(of.dims())? == 0 && plan.results > 0 {
        return Err("the largest or smallest item of an empty tensor is undefined".to_owned());
    }
    built(dtype, plan.dims.clone(), |into| match reduce.kind {
        Reduction::Sum => {
            with_number!(dtype, T => { summed::<T>(&plan, bytes, into); Ok(()) }, Err(no_number(dtype)))
        }
        Reduction::Mean => {
            with_float!(dtype, T => { mean::<T>(&plan, bytes, into); Ok(()) }, Err(no_number(dtype)))
        }
        Reduction::Max => {
            with_number!(dtype, T => { folded(&plan, bytes, into, T::greatest); Ok(()) }, Err(no_number(dtype)))
        }
        Reduction::Min => {
            with_number!(dtype, T => { folded(&plan, bytes, into, T::least); Ok(()) }, Err(no_number(dtype)))
        }
        Reduction::Any => {
            folded(&plan, bytes, into, |x: bool, y| x | y);
            Ok(())
        }
        Reduction::All => {
            if count(of.dims())? == 0 {
                into.fill(u8::from(dtype == Dtype::Bool));
            }
            folded(&plan, bytes, into, |x: bool, y| x & y);
            Ok(())
        }
    })
}

/// A map from the operand's items to the results to which they are reduced.
struct Plan {
    /// The shape of the result.
    dims: Dims,
    /// The number of items of the result.
    results: usize,
    /// The number of items that are reduced to each result.
    parts: usize,
    /// The number of items of a row. The items of a row are adjacent, and are reduced either to one result or
    /// to adjacent results.
    row: usize,
    /// Whether each row is reduced to one result.
    row_is_reduced: bool,
    /// The axes around a row, outermost first: the length of each axis, and the step of the result along it.
    outer: SmallVec<[(usize, usize); 4]>,
    items: usize,
}

impl Plan {
    fn new(from: &[u64], reduce: &Reduce) -> Result<Plan, String> {
        let axes = reduce.axes.iter().map(|axis| axis_of(*axis, from.len()));
        let axes: SmallVec<[usize; 4]> = axes.collect::<Result<_, _>>()?;
        let is_reduced = |axis: usize| axes.is_empty() || axes.contains(&axis);
        let mut dims = Dims::new();
        for (axis, dim) in from.iter().enumerate() {
            match (is_reduced(axis), reduce.keep_dims) {
                (false, _) => dims.push(*dim),
                (true, true) => dims.push(1),
                (true, false) => {}
            }
        }
        // The loop goes from the innermost axis outwards. Neighbouring axes that are both reduced, or both
        // kept, become one axis.
        let mut merged: SmallVec<[(bool, usize); 4]> = SmallVec::new();
        for (axis, dim) in from.iter().enumerate().rev() {
            let (reduced, items) = (is_reduced(axis), count(&[*dim])?);
            match merged.last_mut() {
                Some((same, all)) if *same == reduced => *all = all.saturating_mul(items),
                Some(_) | None => merged.push((reduced, items)),
            }
        }
        let (row_is_reduced, row) = merged.first().copied().unwrap_or((true, 1));
        let mut kept = if row_is_reduced { 1 } else { row };
        let mut outer: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (reduced, items) in merged.iter().skip(1) {
            if *reduced {
                outer.push((*items, 0));
            } else {
                outer.push((*items, kept));
                kept = kept.saturating_mul(*items);
            }
        }
        outer.reverse();
        let (results, items) = (count(&dims)?, count(from)?);
        Ok(Plan {
            dims,
            results,
            parts: items.checked_div(results).unwrap_or(0),
            row,
            row_is_reduced,
            outer,
            items,
        })
    }

    /// Calls `row` for every row. The arguments of `row` are the place of its first item, its first result,
    /// and whether no earlier row belongs to this result.
    fn rows(&self, mut row: impl FnMut(usize, usize, bool)) {
        let mut places: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let mut result = 0;
        for at in (0..self.items).step_by(self.row.max(1)) {
            let pairs = places.iter().zip(&self.outer);
            let is_first = pairs.fold(true, |first, (place, (_, stride))| {
                first && (*stride != 0 || *place == 0)
            });
            row(at, result, is_first);
            for axis in (0..self.outer.len()).rev() {
                let (items, stride) = self.outer[axis];
                places[axis] += 1;
                result += stride;
                if places[axis] < items {
                    break;
                }
                result -= stride * items;
                places[axis] = 0;
            }
        }
    }
}

/// Computes the sums of all results, and passes each sum to `done`. Each sum begins with zero.
fn sums<T: Number>(plan: &Plan, from: &[u8], done: &mut dyn FnMut(usize, T::Sum)) {
    if plan.row_is_reduced && plan.outer.iter().all(|(_, stride)| *stride != 0) {
        // Each row is a result by itself, so no partial sums are kept.
        plan.rows(|at, result, _| done(result, row_sum::<T>(plan, from, at)));
        return;
    }
    let mut all = vec![T::Sum::default(); plan.results];
    plan.rows(|at, result, _| {
        if plan.row_is_reduced {
            let row = items::<T>(&from[at * T::BYTES..][..plan.row * T::BYTES]);
            all[result] = row.fold(all[result], T::added);
        } else {
            let row = items::<T>(&from[at * T::BYTES..][..plan.row * T::BYTES]);
            for (sum, item) in all[result..][..plan.row].iter_mut().zip(row) {
                *sum = T::added(*sum, item);
            }
        }
    });
    for (result, sum) in all.into_iter().enumerate() {
        done(result, sum);
    }
}

fn row_sum<T: Number>(plan: &Plan, from: &[u8], at: usize) -> T::Sum {
    items::<T>(&from[at * T::BYTES..][..plan.row * T::BYTES]).fold(T::Sum::default(), T::added)
}

fn summed<T: Number>(plan: &Plan, from: &[u8], into: &mut [u8]) {
    sums::<T>(plan, from, &mut |result, sum| {
        T::summed(sum).write(&mut into[result * T::BYTES..][..T::BYTES]);
    });
}

fn mean<T: Float>(plan: &Plan, from: &[u8], into: &mut [u8]) {
    let parts = plan.parts as f64;
    if plan.items == 0 {
        into.chunks_exact_mut(T::BYTES)
            .for_each(|into| T::narrow(f64::NAN).write(into));
    }
    sums::<T>(plan, from, &mut |result, sum| {
        T::narrow(sum / parts).write(&mut into[result * T::BYTES..][..T::BYTES]);
    });
}

/// Computes every result by applying `f` to its items, two at a time.
fn folded<T: Item>(plan: &Plan, from: &[u8], into: &mut [u8], f: impl Fn(T, T) -> T) {
    plan.rows(|at, result, is_first| {
        let mut row = items::<T>(&from[at * T::BYTES..][..plan.row * T::BYTES]);
        if plan.row_is_reduced {
            let into = &mut into[result * T::BYTES..][..T::BYTES];
            let begin = if is_first { row.next() } else { Some(T::read(into)) };
            if let Some(begin) = begin {
                row.fold(begin, &f).write(into);
            }
        } else {
            let into = into[result * T::BYTES..][..plan.row * T::BYTES].chunks_exact_mut(T::BYTES);
            for (item, into) in row.zip(into) {
                if is_first { item } else { f(T::read(into), item) }.write(into);
            }
        }
    });
}
