//! Merges two `take` operations into the smaller one, and two `skip` operations into one that skips the sum.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::tree::Op;
use crate::ops::skip::Skip;
use crate::ops::take::Take;

pub(crate) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    if let (Some(more), Some(fewer)) = (op.of::<Take>(), below.of::<Take>()) {
        let count = more.count.min(fewer.count);
        Some(Edit::Merge(Op::new(Take { count })))
    } else if let (Some(more), Some(first)) = (op.of::<Skip>(), below.of::<Skip>()) {
        let count = more.count.checked_add(first.count)?;
        Some(Edit::Merge(Op::new(Skip { count })))
    } else {
        None
    }
}
