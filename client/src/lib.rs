//! The reader: discovery, credits, order, async and blocking iterators.
