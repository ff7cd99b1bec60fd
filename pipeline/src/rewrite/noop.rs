//! Operations that do nothing are removed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::tree::Op;
use crate::ops::repeat::Repeat;
use crate::ops::shard::Shard;
use crate::ops::shuffle::Shuffle;
use crate::ops::skip::Skip;
use crate::ops::take::Take;

pub(crate) fn rule(op: &Op, _: &Op) -> Option<Edit> {
    let does_nothing = if let Some(take) = op.of::<Take>() {
        // No pass has more elements than can be counted.
        take.count == u64::MAX
    } else if let Some(skip) = op.of::<Skip>() {
        skip.count == 0
    } else if let Some(repeat) = op.of::<Repeat>() {
        repeat.count == Some(1)
    } else if let Some(shard) = op.of::<Shard>() {
        // One that demands an element checks that there is one.
        shard.count == Some(1) && !shard.require_non_empty
    } else if let Some(shuffle) = op.of::<Shuffle>() {
        // There is one element to draw from.
        shuffle.buffer == 1
    } else {
        false
    };
    does_nothing.then_some(Edit::Remove)
}
