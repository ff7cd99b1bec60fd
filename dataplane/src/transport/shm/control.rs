//! The control memory of one link, viewed as words. Each user of a part keeps the whole memory mapped. The
//! layout of the words is defined elsewhere.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::layout::ControlLayout;
use super::map::Mapping;
use super::words::Words;

/// The control memory of a link. Clones share the memory.
#[derive(Debug, Clone)]
pub(super) struct Control {
    mapping: Arc<Mapping>,
}

impl Control {
    /// Makes the view of a mapping, or returns `None` if the mapping is smaller than the layout.
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
