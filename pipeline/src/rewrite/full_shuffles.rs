//! Full shuffles: those whose buffer takes in all that a source has, whose elements are found by their
//! positions. They are executed as a permutation of the positions, so that nothing is held, and tasks that
//! are dealt splits share one order.
//!
//! This is what such a shuffle is defined as, and no change that can be switched off: the permutation draws
//! another order than a buffer would.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::noop;
use crate::graph::function::Function;
use crate::graph::predicate::Predicate;
use crate::graph::tree::Op;
use crate::graph::tree::{Graph, Node};
use crate::ops::filter::Filter;
use crate::ops::map::Map;
use crate::ops::range::Range;
use crate::ops::repeat::Repeat;
use crate::ops::shuffle::Shuffle;
use crate::ops::shuffle_and_repeat::ShuffleAndRepeat;
use crate::ops::tensor_slices::TensorSlices;
use crate::ops::tensors::Tensors;

impl Graph {
    /// The source that the shuffle at `node` permutes, and its positions, if it stands right above one, or
    /// above others that do.
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
}

/// Moves full shuffles down to the source that they permute. `is_fed` says that its positions are dealt out
/// in splits.
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

/// Returns whether the operation at `node` is a shuffle whose buffer takes in a whole source.
fn is_full_here(nodes: &[Node], node: usize, is_fed: bool) -> bool {
    let op = &nodes[node].op;
    let shuffle = if let Some(both) = op.of::<ShuffleAndRepeat>() {
        Some(Shuffle {
            buffer: both.buffer,
            seed: both.seed,
            fixed: false,
        })
    } else {
        shuffle_of(op)
    };
    let Some(mut smallest) = shuffle else { return false };
    let (mut below, mut is_at_shuffles) = (node, false);
    while let [input] = nodes[below].inputs[..] {
        below = input as usize;
        let op = &nodes[below].op;
        // Full shuffles further down stand at their source already.
        if let Some(shuffle) = shuffle_of(op) {
            is_at_shuffles = true;
            smallest = least(smallest, shuffle);
        } else if is_at_shuffles || !passes(op, is_fed) {
            break;
        }
    }
    positions(&nodes[below].op).is_some_and(|positions| is_full(&smallest, positions, is_fed))
}

/// Makes a shuffle and a repetition of a full `shuffle_and_repeat` at `node`: nothing is left to be read
/// ahead.
fn divide(nodes: &mut Vec<Node>, origins: &mut Vec<u32>, node: usize) {
    let Some(both) = nodes[node].op.of::<ShuffleAndRepeat>().copied() else {
        return;
    };
    // A graph has at most 4096 nodes, and this at most doubles them.
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
    });
}

/// Returns how many positions a source has, if its elements are found by them at no cost.
fn positions(op: &Op) -> Option<u64> {
    if let Some(range) = op.of::<Range>() {
        Some(range.len())
    } else if op.is::<Tensors>() {
        Some(1)
    } else if let Some(slices) = op.of::<TensorSlices>() {
        slices.constant.slices().ok()
    } else {
        None
    }
}

/// Returns whether a shuffle takes in so many positions. A shuffle that draws the same in all passes stays a
/// buffer where everything is read. Other sources' shuffles with its seed then draw as it does.
fn is_full(shuffle: &Shuffle, positions: u64, is_fed: bool) -> bool {
    // One element is nothing to shuffle: such a shuffle is left out.
    shuffle.buffer >= positions.max(2) && (is_fed || !shuffle.fixed)
}

/// The demands of two shuffles together: both are full if this one is.
fn least(one: Shuffle, other: Shuffle) -> Shuffle {
    Shuffle {
        buffer: one.buffer.min(other.buffer),
        fixed: one.fixed || other.fixed,
        ..one
    }
}

/// Returns whether a shuffle may change places with the operation that it reads: what that yields is the same
/// in any order. User code may count its calls, which says something only where one process makes all of
/// them.
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
    // One of a single element does nothing.
    op.of::<Shuffle>().copied().filter(|shuffle| shuffle.buffer > 1)
}

#[cfg(test)]
mod tests {
    use crate::graph::{Dataset, Graph, Params, Rewrites, col};

    /// The operations as they are executed, from the source on; a shuffle that permutes is marked.
    fn executed(dataset: Dataset, is_fed: bool) -> Vec<String> {
        let graph = dataset.graph().unwrap().rewritten_for(Rewrites::OFF, is_fed);
        assert!(Graph::new(graph.nodes().to_vec()).is_ok(), "it is a graph still");
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
