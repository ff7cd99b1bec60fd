//! The control memory of one link as words, kept mapped by every user of a part of it. Refuses to know what
//! lies where.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::layout::ControlLayout;
use super::map::Mapping;
use super::words::Words;

/// The control memory; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Control {
    mapping: Arc<Mapping>,
}

impl Control {
    /// `None` when the mapping is smaller than the layout.
    pub(super) fn new(mapping: Mapping) -> Option<Self> {
        let mapping = Arc::new(mapping);
        mapping.words(0..ControlLayout::STANDARD.bytes())?;
        Some(Self { mapping })
    }
}

impl Words for Control {
    type Word = AtomicU64;

    fn words(&self) -> &[AtomicU64] {
        self.mapping
            .words(0..ControlLayout::STANDARD.bytes())
            .unwrap_or_default()
    }
}
