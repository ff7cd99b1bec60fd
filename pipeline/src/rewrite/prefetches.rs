//! Removes the smaller of two adjacent buffers: a thread that fills a buffer from another one waits for the
//! same.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::tree::Op;
use crate::ops::prefetch::Prefetch;

pub(crate) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    if let (Some(one), Some(other)) = (op.of::<Prefetch>(), below.of::<Prefetch>()) {
        // One that sizes itself is as large as it need be.
        let buffer = if one.buffer == 0 || other.buffer == 0 {
            0
        } else {
            one.buffer.max(other.buffer)
        };
        return Some(Edit::Merge(Op::new(Prefetch { buffer })));
    }
    None
}
