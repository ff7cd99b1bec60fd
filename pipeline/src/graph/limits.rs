//! The limits of a graph and of what its operations hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Nodes of a graph, sub-graphs included.
pub const NODES_MAX: usize = 4096;
/// Operations one behind the other from the output to a source, sub-graphs included: execution recurses this
/// deep.
pub const DEPTH_MAX: usize = 256;
/// Sub-graphs within sub-graphs.
pub const NESTING_MAX: usize = 8;
/// Bytes of an encoded graph.
pub const GRAPH_BYTES_MAX: usize = 16 << 20;
/// Bytes of a name: of a function, a component, a field, a pattern.
pub const NAME_BYTES_MAX: usize = 4096;
/// Elements that `shuffle`, `batch` and `prefetch` may hold.
pub const BUFFER_MAX: u64 = 1 << 24;

/// Datasets that an `interleave` may have open at once: each holds at least a file, as a rule.
pub const CYCLE_MAX: u64 = 4096;
