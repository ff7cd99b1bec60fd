//! Removes the smaller of two adjacent prefetch buffers. A thread that moves elements from one buffer to
//! another adds nothing.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::tree::Op;
use crate::ops::prefetch::Prefetch;

pub(crate) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    if let (Some(one), Some(other)) = (op.of::<Prefetch>(), below.of::<Prefetch>()) {
        // A buffer that is tuned by measurement becomes as large as necessary.
        let buffer = if one.buffer == 0 || other.buffer == 0 {
            0
        } else {
            one.buffer.max(other.buffer)
        };
        return Some(Edit::Merge(Op::new(Prefetch { buffer })));
    }
    None
}
