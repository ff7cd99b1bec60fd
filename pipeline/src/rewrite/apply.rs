//! Applies the rewrite rules to a graph from the sources to the output, until no rule applies. A rule looks
//! at one operation and its input, and does not know the graph.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use super::{casts, counts, full_shuffles, noop, prefetches, projection};
use crate::graph::rewrites::Rewrites;
use crate::graph::tree::Op;
use crate::graph::tree::{Execution, Graph, Node};

/// A rule, which looks at an operation and the operation that is its first input.
type Rule = fn(&Op, &Op) -> Option<Edit>;

impl Graph {
    /// Returns the graph as it is executed without splits: see [`Graph::rewritten_for`].
    pub(crate) fn rewritten(&self, switches: Rewrites) -> Graph {
        self.rewritten_for(switches, false)
    }

    /// Returns the graph as it is executed. Full shuffles are moved to their sources, and the rewrites that
    /// `switches` allow are applied.
    ///
    /// The rewrites also apply to the bodies of functions. `is_fed` says whether the sources receive splits.
    /// The new graph remembers the original numbers of its nodes, because random draws depend on these
    /// numbers.
    pub(crate) fn rewritten_for(&self, switches: Rewrites, is_fed: bool) -> Graph {
        // A body's own options take precedence over the options of the surrounding graph.
        let switches = self.rewrites().unwrap_or(switches);
        let mut rewriting = Rewriting {
            nodes: self.nodes().to_vec(),
            origins: (0..self.nodes().len()).map(|node| self.origin(node)).collect(),
        };
        for node in &mut rewriting.nodes {
            for body in node.op.change().graphs_mut() {
                *body = body.rewritten(switches);
            }
        }
        full_shuffles::sink(&mut rewriting.nodes, &mut rewriting.origins, is_fed);
        let rules: [(bool, Rule); 5] = [
            (switches.removes_noops(), noop::rule),
            (switches.delays_casts(), casts::rule),
            (switches.merges_counts(), counts::rule),
            (switches.merges_prefetches(), prefetches::rule),
            (switches.pushes_projections(), projection::rule),
        ];
        for (_, rule) in rules.iter().filter(|(is_on, _)| *is_on) {
            rewriting.apply(*rule);
        }
        let execution = Execution {
            origins: rewriting.origins,
            keeps_maps_apart: !switches.fuses_maps(),
            is_fed,
            defined: Some(self.as_defined().nodes().into()),
        };
        self.executed_as(rewriting.nodes, execution)
    }
}

/// The nodes of a graph during rewriting, and their original numbers.
struct Rewriting {
    nodes: Vec<Node>,
    origins: Vec<u32>,
}

impl Rewriting {
    /// Applies `rule` from the sources to the output. After an edit, the changed operation is checked again.
    ///
    /// The loop ends, because every edit removes a node, moves a node nearer to the output, or is made only
    /// once.
    fn apply(&mut self, rule: Rule) {
        let mut node = 0;
        while node < self.nodes.len() {
            match self.edit(node, rule) {
                Some(Edit::Remove) => self.remove(node),
                Some(Edit::Merge(op)) => {
                    self.nodes[node].op = op;
                    let below = self.nodes[node].inputs[0] as usize;
                    self.remove(below);
                    // The merged operation now has the place of its input, or an earlier one, and is checked
                    // again.
                    node = node.saturating_sub(1);
                }
                Some(Edit::Below(op)) => {
                    let below = self.nodes[node].inputs[0] as usize;
                    self.nodes[below].op = op;
                }
                Some(Edit::Swap) => {
                    let below = self.nodes[node].inputs[0] as usize;
                    self.swap(below, node);
                    // The operation that moved down may move further.
                    node = below;
                }
                None => node += 1,
            }
        }
    }

    /// Swaps the operation at `node` with its only input, the operation at `below`.
    fn swap(&mut self, below: usize, node: usize) {
        let (earlier, later) = self.nodes.split_at_mut(node);
        std::mem::swap(&mut earlier[below].op, &mut later[0].op);
        self.origins.swap(below, node);
    }

    fn edit(&self, node: usize, rule: Rule) -> Option<Edit> {
        let Node { op, inputs } = &self.nodes[node];
        // The rules only handle operations with one input.
        let [below] = inputs[..] else { return None };
        // Each node has one user, so that a change of the input affects no other operation.
        rule(op, &self.nodes[below as usize].op)
    }

    /// Removes a node with one input. The users of the node read that input instead.
    fn remove(&mut self, node: usize) {
        let below = self.nodes[node].inputs[0];
        self.nodes.remove(node);
        self.origins.remove(node);
        // Users come after their inputs, so all users of the node are behind it.
        for user in &mut self.nodes[node..] {
            for input in &mut user.inputs {
                if *input as usize == node {
                    *input = below;
                } else if *input as usize > node {
                    *input -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dataset;

    fn labels(dataset: Dataset) -> Vec<String> {
        let graph = dataset.graph().unwrap().rewritten(Rewrites::default());
        assert!(
            Graph::new(graph.nodes().to_vec()).is_ok(),
            "the rewritten graph is valid"
        );
        graph.nodes().iter().map(|node| node.op.label()).collect()
    }

    fn range() -> Dataset {
        Dataset::range(0, 9, 1)
    }

    const RANGE: &str = "range(start: 0, stop: 9, step: 1)";

    #[test]
    fn operations_without_effect_are_removed() {
        let nothing = |dataset: Dataset| {
            dataset
                .take(u64::MAX)
                .skip(0)
                .repeat(Some(1))
                .shard(1, 0)
                .shuffle(1, Some(3))
        };
        assert_eq!(labels(nothing(range())), [RANGE]);
        let zipped = Dataset::zip([nothing(range()), nothing(range().take(3))]);
        assert_eq!(labels(nothing(zipped)), [RANGE, RANGE, "take(count: 3)", "zip"]);
        let within = range().flat_map(|argument| nothing(argument.take(2)));
        let graph = within.graph().unwrap().rewritten(Rewrites::default());
        assert_eq!(graph.nodes()[1].op.body().map(|body| body.nodes().len()), Some(2));
    }

    #[test]
    fn what_looks_like_nothing_and_is_something_stays() {
        let kept = |dataset: Dataset| assert_eq!(labels(dataset).len(), 2);
        kept(range().take(9));
        kept(range().take(0));
        kept(range().repeat(Some(0)));
        kept(range().repeat(None));
        kept(range().shard(2, 0));
        kept(range().prefetch(1));
        kept(range().batch(1, false));
    }

    #[test]
    fn counts_and_buffers_are_merged() {
        assert_eq!(labels(range().take(5).take(3).take(7)), [RANGE, "take(count: 3)"]);
        assert_eq!(labels(range().skip(2).skip(3).skip(1)), [RANGE, "skip(count: 6)"]);
        assert_eq!(labels(range().skip(2).take(3)).len(), 3);
        assert_eq!(
            labels(range().skip(u64::MAX).skip(1)).len(),
            3,
            "the sum overflows"
        );
        assert_eq!(
            labels(range().prefetch(2).prefetch(9).prefetch(4)),
            [RANGE, "prefetch(buffer: 9)"]
        );
    }

    #[test]
    fn operations_remember_where_they_were() {
        let graph = range()
            .skip(0)
            .take(5)
            .take(3)
            .skip(0)
            .batch(2, false)
            .graph()
            .unwrap();
        let rewritten = graph.rewritten(Rewrites::default());
        let origins: Vec<u32> = (0..rewritten.nodes().len())
            .map(|node| rewritten.origin(node))
            .collect();
        assert_eq!(origins, [0, 3, 5]);
        let again = rewritten.rewritten(Rewrites::default());
        assert_eq!(again, rewritten, "a second rewrite changes nothing");
    }

    #[test]
    fn every_rule_can_be_switched_off() {
        let everything = range()
            .skip(0)
            .take(5)
            .take(3)
            .prefetch(1)
            .prefetch(2)
            .graph()
            .unwrap();
        let left = |switches: Rewrites| everything.rewritten(switches).nodes().len();
        assert_eq!(left(Rewrites::default()), 3);
        assert_eq!(left(Rewrites::OFF), 6);
        let but = |change: fn(&mut Rewrites)| {
            let mut switches = Rewrites::default();
            change(&mut switches);
            left(switches)
        };
        assert_eq!(but(|switches| switches.noops = Some(false)), 4);
        assert_eq!(but(|switches| switches.counts = Some(false)), 4);
        assert_eq!(but(|switches| switches.prefetches = Some(false)), 4);
        let cast = range().cast("", millstream_element::Dtype::F64).take(5);
        let last = |switches: Rewrites| {
            let graph = cast.clone().graph().unwrap().rewritten(switches);
            graph.nodes()[2].op.name().to_owned()
        };
        assert_eq!(last(Rewrites::default()), "compute");
        assert_eq!(
            last(Rewrites {
                casts: Some(false),
                ..Rewrites::default()
            }),
            "take"
        );
        let maps = |switches: Rewrites| {
            let graph = range().parse_int("a").parse_int("a").graph().unwrap();
            graph.rewritten(switches).is_fused(1)
        };
        assert!(maps(Rewrites::default()) && !maps(Rewrites::OFF));
    }
}
