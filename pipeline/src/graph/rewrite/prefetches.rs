//! Of two buffers one behind the other the larger is enough: a thread that fills a buffer from another one waits for the
//! same.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::apply::Edit;
use crate::graph::op::{Op, Prefetch};

pub(super) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    if let (Op::Prefetch(one), Op::Prefetch(other)) = (op, below) {
        // One that sizes itself is as large as it need be.
        let buffer = if one.buffer == 0 || other.buffer == 0 {
            0
        } else {
            one.buffer.max(other.buffer)
        };
        return Some(Edit::Merge(Op::Prefetch(Prefetch { buffer })));
    }
    None
}
