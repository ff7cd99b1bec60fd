//! The first of the first elements are the first, and what comes behind what comes behind comes further behind.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::apply::Edit;
use crate::graph::op::{Count, Op};

pub(super) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    if let (Op::Take(more), Op::Take(fewer)) = (op, below) {
        let count = more.count.min(fewer.count);
        Some(Edit::Merge(Op::Take(Count { count })))
    } else if let (Op::Skip(more), Op::Skip(first)) = (op, below) {
        let count = more.count.checked_add(first.count)?;
        Some(Edit::Merge(Op::Skip(Count { count })))
    } else {
        None
    }
}
