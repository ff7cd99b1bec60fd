//! Removes operations without effect.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::tree::Op;

pub(crate) fn rule(op: &Op, _: &Op) -> Option<Edit> {
    op.does_nothing().then_some(Edit::Remove)
}
