//! Operations that do nothing are removed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::apply::Edit;
use crate::graph::op::Op;

pub(super) fn rule(op: &Op, _: &Op) -> Option<Edit> {
    let does_nothing = if let Op::Take(take) = op {
        // No pass has more elements than can be counted.
        take.count == u64::MAX
    } else if let Op::Skip(skip) = op {
        skip.count == 0
    } else if let Op::Repeat(repeat) = op {
        repeat.count == Some(1)
    } else if let Op::Shard(shard) = op {
        // One that demands an element checks that there is one.
        shard.count == Some(1) && !shard.require_non_empty
    } else if let Op::Shuffle(shuffle) = op {
        // There is one element to draw from.
        shuffle.buffer == 1
    } else {
        false
    };
    does_nothing.then_some(Edit::Remove)
}
