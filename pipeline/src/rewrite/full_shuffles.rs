//! Full shuffles, whose buffer holds all elements of a source with random access. A full shuffle is executed
//! as a permutation of the source's positions. No element is buffered, and tasks that receive splits share
//! one order. Shuffles [in blocks](Shuffle::in_blocks) are executed in the same way.
//!
//! The permutation is the definition of a full shuffle, so no option switches it off. A buffer would draw
//! another order.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::noop;
use crate::graph::function::Function;
use crate::graph::predicate::Predicate;
use crate::graph::tree::Op;
use crate::graph::tree::{Graph, Node};
use crate::ops::counter::Counter;
use crate::ops::filter::Filter;
use crate::ops::map::Map;
use crate::ops::range::Range;
use crate::ops::repeat::Repeat;
use crate::ops::shuffle::Shuffle;
use crate::ops::shuffle_and_repeat::ShuffleAndRepeat;
use crate::ops::tensor_slices::TensorSlices;
use crate::ops::tensors::Tensors;

impl Graph {
    /// Returns the source that the shuffle at `node` permutes, and the number of its positions. Only other
    /// shuffles may be between the shuffle and the source.
    pub(crate) fn permuted(&self, node: usize) -> Option<(usize, u64)> {
        let mut smallest = shuffle_of(&self.nodes()[node].op)?;
        let mut below = node;
        while let [input] = self.nodes()[below].inputs[..] {
            below = input as usize;
            let Some(shuffle) = shuffle_of(&self.nodes()[below].op) else {
                break;
            };
            smallest = least(smallest, shuffle);
        }
        let positions = positions(&self.nodes()[below].op)?;
        is_full(&smallest, positions, self.is_fed()).then_some((below, positions))
    }

    /// Lets shuffles permute [blocks](Shuffle::in_blocks) of their source if they can swap places with all
    /// operations below them. The sources receive splits.
    pub(crate) fn with_shuffles_in_blocks(&self) -> Graph {
        let mut nodes = self.nodes().to_vec();
        for node in &mut nodes {
            let [input] = node.inputs[..] else { continue };
            if shuffle_of(&node.op).is_some()
                && self.reaches_positions(input as usize)
                && let Some(shuffle) = node.op.of_mut::<Shuffle>()
            {
                shuffle.in_blocks = true;
            }
        }
        self.with_ops(nodes)
    }

    /// Returns whether a shuffle above `node` can move down to a source with free random access.
    fn reaches_positions(&self, mut node: usize) -> bool {
        while let [input] = self.nodes()[node].inputs[..]
            && passes(&self.nodes()[node].op, true)
        {
            node = input as usize;
        }
        positions(&self.nodes()[node].op).is_some()
    }
}

/// Moves full shuffles down to the sources that they permute. `is_fed` says whether the sources receive
/// splits.
pub(crate) fn sink(nodes: &mut Vec<Node>, origins: &mut Vec<u32>, is_fed: bool) {
    let mut node = 0;
    while node < nodes.len() {
        if is_full_here(nodes, node, is_fed) {
            divide(nodes, origins, node);
            let mut above = node;
            while let [below] = nodes[above].inputs[..]
                && passes(&nodes[below as usize].op, is_fed)
            {
                let (earlier, later) = nodes.split_at_mut(above);
                std::mem::swap(&mut earlier[below as usize].op, &mut later[0].op);
                origins.swap(below as usize, above);
                above = below as usize;
            }
        }
        node += 1;
    }
}

/// Returns whether the operation at `node` is a shuffle whose buffer holds a whole source.
fn is_full_here(nodes: &[Node], node: usize, is_fed: bool) -> bool {
    let op = &nodes[node].op;
    let shuffle = if let Some(both) = op.of::<ShuffleAndRepeat>() {
        Some(Shuffle {
            buffer: both.buffer,
            seed: both.seed,
            fixed: false,
            in_blocks: false,
        })
    } else {
        shuffle_of(op)
    };
    let Some(mut smallest) = shuffle else { return false };
    let (mut below, mut is_at_shuffles) = (node, false);
    while let [input] = nodes[below].inputs[..] {
        below = input as usize;
        let op = &nodes[below].op;
        // Full shuffles further down are next to their source already.
        if let Some(shuffle) = shuffle_of(op) {
            is_at_shuffles = true;
            smallest = least(smallest, shuffle);
        } else if is_at_shuffles || !passes(op, is_fed) {
            break;
        }
    }
    positions(&nodes[below].op).is_some_and(|positions| is_full(&smallest, positions, is_fed))
}

/// Replaces a full `shuffle_and_repeat` at `node` by a shuffle and a repetition. A permutation needs no
/// prefetch of the next pass.
fn divide(nodes: &mut Vec<Node>, origins: &mut Vec<u32>, node: usize) {
    let Some(both) = nodes[node].op.of::<ShuffleAndRepeat>().copied() else {
        return;
    };
    // The cast is exact, because a graph has at most 4096 nodes, and this loop at most doubles them.
    let place = node as u32;
    for user in &mut nodes[node + 1..] {
        for input in &mut user.inputs {
            *input += u32::from(*input >= place);
        }
    }
    let repeat = Op::new(Repeat { count: both.count });
    let inputs = vec![place];
    nodes.insert(node + 1, Node { op: repeat, inputs });
    origins.insert(node + 1, origins[node]);
    nodes[node].op = Op::new(Shuffle {
        buffer: both.buffer,
        seed: both.seed,
        fixed: false,
        in_blocks: false,
    });
}

/// Returns the number of positions of a source with free random access; `None` for other operations.
fn positions(op: &Op) -> Option<u64> {
    if let Some(range) = op.of::<Range>() {
        Some(range.len())
    } else if op.is::<Counter>() {
        Some(u64::MAX)
    } else if op.is::<Tensors>() {
        Some(1)
    } else if let Some(slices) = op.of::<TensorSlices>() {
        slices.constant.slices().ok()
    } else {
        None
    }
}

/// Returns whether the buffer of the shuffle holds `positions` positions.
///
/// A shuffle that repeats its draws in every pass stays a buffer if the source receives no splits. A shuffle
/// that stays a buffer draws the same order as the shuffles of other sources with the same seed.
fn is_full(shuffle: &Shuffle, positions: u64, is_fed: bool) -> bool {
    // A shuffle of a single element has no effect, and is removed by another rule.
    permuted_buffer(shuffle) >= positions.max(2) && (is_fed || !shuffle.fixed)
}

/// Returns the requirements of two shuffles together: if the result is full, both shuffles are full.
fn least(one: Shuffle, other: Shuffle) -> Shuffle {
    Shuffle {
        buffer: permuted_buffer(&one).min(permuted_buffer(&other)),
        fixed: one.fixed || other.fixed,
        in_blocks: false,
        ..one
    }
}

/// Returns the number of positions up to which a shuffle permutes its source.
fn permuted_buffer(shuffle: &Shuffle) -> u64 {
    if shuffle.in_blocks {
        u64::MAX
    } else {
        shuffle.buffer
    }
}

/// Returns whether a shuffle may swap places with `op`, its input. `op` must yield the same elements in any
/// order.
///
/// User code may count its calls. The count has a meaning only if one process makes all calls, which is not
/// the case with splits.
fn passes(op: &Op, is_fed: bool) -> bool {
    let maps = op
        .of::<Map>()
        .is_some_and(|map| matches!(map.function, Function::Registered(_)));
    let filters = op
        .of::<Filter>()
        .is_some_and(|filter| matches!(filter.0, Predicate::Registered(_)));
    let is_user_code = maps || filters;
    let does_nothing = noop::rule(op, op).is_some();
    does_nothing || (op.ignores_order() && shuffle_of(op).is_none() && (is_fed || !is_user_code))
}

fn shuffle_of(op: &Op) -> Option<Shuffle> {
    // A shuffle of a single element has no effect.
    op.of::<Shuffle>().copied().filter(|shuffle| shuffle.buffer > 1)
}

#[cfg(test)]
mod tests {
    use crate::graph::{Dataset, Graph, Params, Rewrites, col};

    /// Returns the operations in the order of execution, from the source on; a shuffle that permutes is
    /// marked with `!`.
    fn executed(dataset: Dataset, is_fed: bool) -> Vec<String> {
        let graph = dataset.graph().unwrap().rewritten_for(Rewrites::OFF, is_fed);
        assert!(
            Graph::new(graph.nodes().to_vec()).is_ok(),
            "the rewritten graph is valid"
        );
        let name = |node: usize| {
            let mark = if graph.permuted(node).is_some() { "!" } else { "" };
            format!("{}{mark}", graph.nodes()[node].op.name())
        };
        (0..graph.nodes().len()).map(name).collect()
    }

    fn range() -> Dataset {
        Dataset::range(0, 9, 1)
    }

    #[test]
    fn full_shuffles_sink_below_what_ignores_order() {
        let dataset = range()
            .map_expr(col("") + 1)
            .prefetch(2)
            .filter_expr(col("").gt(3))
            .shuffle(9, None)
            .batch(2, false);
        for is_fed in [false, true] {
            let expected = ["range", "shuffle!", "compute", "prefetch", "filter_expr", "batch"];
            assert_eq!(executed(dataset.clone(), is_fed), expected);
        }
    }

    #[test]
    fn full_shuffles_stay_above_counting_operations() {
        for (dataset, name) in [
            (range().take(9), "take"),
            (range().enumerate(0), "enumerate"),
            (range().repeat(Some(2)), "repeat"),
            (range().batch(1, false), "batch"),
            (range().cache(), "cache"),
        ] {
            for is_fed in [false, true] {
                assert_eq!(
                    executed(dataset.clone().shuffle(99, None), is_fed),
                    ["range", name, "shuffle"]
                );
            }
        }
    }

    #[test]
    fn smaller_buffers_stay_buffers() {
        assert_eq!(executed(range().shuffle(8, None), true), ["range", "shuffle"]);
        assert_eq!(
            executed(range().shuffle(8, None).shuffle(9, None), true),
            ["range", "shuffle", "shuffle"]
        );
    }

    #[test]
    fn full_shuffles_of_full_shuffles_all_permute() {
        let dataset = range().shuffle(9, None).map_expr(col("") + 1).shuffle(10, None);
        assert_eq!(
            executed(dataset, false),
            ["range", "shuffle!", "shuffle!", "compute"]
        );
    }

    #[test]
    fn many_shuffles_are_looked_at_once_each() {
        let many = (0..200).fold(range(), |dataset, _| dataset.shuffle(9, None));
        let names = executed(many, true);
        assert!(names[1..].iter().all(|name| name == "shuffle!"), "{names:?}");
    }

    #[test]
    fn user_code_is_passed_only_with_splits() {
        let mapped = || {
            range()
                .map("add", Params::encode(&1i64).unwrap())
                .shuffle(9, None)
        };
        assert_eq!(executed(mapped(), false), ["range", "map", "shuffle"]);
        assert_eq!(executed(mapped(), true), ["range", "shuffle!", "map"]);
    }

    #[test]
    fn repeated_shuffles_permute_only_with_splits() {
        let alike = || range().shuffle(9, Some(1)).drawn_alike();
        assert_eq!(executed(alike(), false), ["range", "shuffle"]);
        assert_eq!(executed(alike(), true), ["range", "shuffle!"]);
    }

    #[test]
    fn full_shuffle_and_repeat_becomes_two_operations() {
        let dataset = range()
            .map_expr(col("") + 1)
            .shuffle_and_repeat(9, Some(2), None)
            .take(12);
        assert_eq!(
            executed(dataset, false),
            ["range", "shuffle!", "compute", "repeat", "take"]
        );
        let smaller = range().shuffle_and_repeat(8, Some(2), None);
        assert_eq!(executed(smaller, false), ["range", "shuffle_and_repeat"]);
    }

    #[test]
    fn shuffles_in_functions_are_never_fed() {
        let within =
            range().flat_map(|argument| Dataset::zip([argument, range().shuffle(9, Some(1)).drawn_alike()]));
        let graph = within.graph().unwrap().rewritten_for(Rewrites::OFF, true);
        let body = graph.nodes()[1].op.body().unwrap();
        assert!((0..body.nodes().len()).all(|node| body.permuted(node).is_none()));
    }
}
