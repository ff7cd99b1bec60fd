//! A walk through several tensors side by side that broadcast to one shape, by NumPy's rules. Along each row,
//! an operand either moves on item by item, or repeats one item.

use smallvec::SmallVec;

use crate::exec::value::Dims;
use crate::graph::broadcast;

use super::items::count;

/// A walk through `N` operands.
#[derive(Debug)]
pub(crate) struct Walk<const N: usize> {
    /// The shape to which the operands broadcast.
    pub(crate) dims: Dims,
    /// The number of items of a row.
    pub(crate) inner: usize,
    /// The step of each operand along a row: 1, or 0 for an operand that repeats one item.
    pub(crate) steps: [usize; N],
    /// The axes around a row, outermost first.
    outer: SmallVec<[Axis<N>; 4]>,
}

#[derive(Debug, Clone, Copy)]
struct Axis<const N: usize> {
    items: usize,
    strides: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// Returns the walk over operands of the shapes `shapes`.
    ///
    /// # Errors
    /// A text that states why the shapes do not broadcast.
    pub(crate) fn new(shapes: [&[u64]; N]) -> Result<Walk<N>, String> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let dim = |shape: &[u64], axis: usize| {
            let missing = rank - shape.len();
            axis.checked_sub(missing).map_or(1, |axis| shape[axis])
        };
        let mut dims = Dims::new();
        for axis in 0..rank {
            let mut joined = Some(1);
            for shape in shapes {
                joined = broadcast(joined, Some(dim(shape, axis)))
                    .map_err(|reason| format!("{reason}: the shapes are {shapes:?}"))?;
            }
            dims.push(joined.unwrap_or(1));
        }
        // The loop goes from the innermost axis outwards. Neighbouring axes along which every operand moves
        // alike become one axis.
        let mut axes: SmallVec<[Axis<N>; 4]> = SmallVec::new();
        let mut sizes = [1usize; N];
        for axis in (0..rank).rev() {
            let items = count(&dims[axis..=axis])?;
            if items == 1 {
                continue;
            }
            let mut strides = [0; N];
            for (operand, shape) in shapes.iter().enumerate() {
                if dim(shape, axis) != 1 {
                    strides[operand] = sizes[operand];
                    sizes[operand] = sizes[operand].saturating_mul(items);
                }
            }
            match axes.last_mut() {
                Some(last)
                    if (0..N).all(|operand| strides[operand] == last.strides[operand] * last.items) =>
                {
                    last.items = last.items.saturating_mul(items);
                }
                Some(_) | None => axes.push(Axis { items, strides }),
            }
        }
        let row = if axes.is_empty() {
            Axis {
                items: 1,
                strides: [0; N],
            }
        } else {
            axes.remove(0)
        };
        axes.reverse();
        Ok(Walk {
            inner: row.items,
            steps: row.strides,
            dims,
            outer: axes,
        })
    }

    /// Calls `row` with the place of the first item of every row, in the result and in each operand.
    ///
    /// # Errors
    /// The first error that `row` returns.
    pub(crate) fn rows(
        &self,
        mut row: impl FnMut(usize, [usize; N]) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.dims.contains(&0) {
            return Ok(());
        }
        let mut places: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let mut operands = [0; N];
        let mut result = 0;
        loop {
            row(result, operands)?;
            result += self.inner;
            let mut axis = self.outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else {
                    return Ok(());
                };
                axis = next;
                let Axis { items, strides } = self.outer[axis];
                places[axis] += 1;
                for (operand, stride) in operands.iter_mut().zip(strides) {
                    *operand += stride;
                }
                if places[axis] < items {
                    break;
                }
                places[axis] = 0;
                for (operand, stride) in operands.iter_mut().zip(strides) {
                    *operand -= stride * items;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the place in an operand of shape `shape` that belongs to the place `at` in the result of shape
    /// `dims`.
    fn naive(dims: &[u64], shape: &[u64], at: usize) -> usize {
        let mut rest = at;
        let mut place = 0;
        let mut size = 1;
        for axis in (0..dims.len()).rev() {
            let index = rest % dims[axis] as usize;
            rest /= dims[axis] as usize;
            if let Some(axis) = axis.checked_sub(dims.len() - shape.len()) {
                if shape[axis] != 1 {
                    place += index * size;
                }
                size *= shape[axis] as usize;
            }
        }
        place
    }

    proptest! {
        #[test]
        fn every_item_meets_the_ones_that_numpy_says(
            dims in prop::collection::vec(0u64..4, 0..5),
            kept in prop::collection::vec(any::<(bool, bool)>(), 5),
            cut in (0usize..5, 0usize..5),
        ) {
            let shape = |one: bool, cut: usize| -> Vec<u64> {
                let pairs = dims.iter().zip(&kept);
                let shape = pairs.map(|(dim, keep)| if if one { keep.0 } else { keep.1 } { *dim } else { 1 });
                shape.skip(cut.min(dims.len())).collect()
            };
            let (one, other) = (shape(true, cut.0), shape(false, cut.1));
            let walk = Walk::new([&one, &other]).unwrap();
            let mut expected_at = 0;
            walk.rows(|at, places| {
                assert_eq!(at, expected_at);
                expected_at += walk.inner;
                for nth in 0..walk.inner {
                    assert_eq!(places[0] + nth * walk.steps[0], naive(&walk.dims, &one, at + nth));
                    assert_eq!(places[1] + nth * walk.steps[1], naive(&walk.dims, &other, at + nth));
                }
                Ok(())
            })
            .unwrap();
            prop_assert_eq!(expected_at, count(&walk.dims).unwrap());
        }
    }
}
