//! The operations that are executed together as one step.
//!
//! Owns the rules for neighbouring maps, and for a batch that computes its rows in place. Refuses to know how
//! the operations are executed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::{Graph, Node};
use crate::ops::batch::Batch;
use crate::ops::map::Map;

impl Graph {
    /// Returns whether `node` is not executed as a step of its own: it only sets options, is fused with the
    /// map above it, or is a full shuffle.
    pub(crate) fn is_passed_over(&self, node: usize) -> bool {
        self.nodes()[node].op.options().is_some() || self.is_fused(node) || self.permuted(node).is_some()
    }

    /// Returns whether `node` is a map that is executed together with the map above it.
    pub(crate) fn is_fused(&self, node: usize) -> bool {
        let Some(map) = self.nodes()[node].op.of::<Map>() else {
            return false;
        };
        if !self.fuses_maps() {
            return false;
        }
        let user = self.user(node);
        let user = user.and_then(|user| user.op.of::<Map>());
        user.is_some_and(|user| user.schedule == map.schedule)
    }

    /// Returns whether `node` is a parallel map below a batch. The elements of a map below a batch can be
    /// computed directly in the rows of the batch.
    pub(crate) fn fills_rows(&self, node: usize) -> bool {
        let map = self.nodes()[node].op.of::<Map>();
        map.is_some_and(|map| map.schedule.parallel != 1)
            && self.user(node).is_some_and(|user| user.op.is::<Batch>())
    }

    /// Returns the user of `node`; `None` for the output.
    fn user(&self, node: usize) -> Option<&Node> {
        let reads = |user: &&Node| user.inputs.contains(&(node as u32));
        self.nodes()[node + 1..].iter().find(reads)
    }
}
