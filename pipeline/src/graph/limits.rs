//! The limits of graphs and of the elements that operations hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The maximum number of nodes in a graph, including the graphs of its functions.
pub const NODES_MAX: usize = 4096;
/// The maximum length of a path from the output to a source, in operations, including the graphs of
/// functions. The execution of a graph recurses as deep as its longest path.
pub const DEPTH_MAX: usize = 256;
/// The maximum depth of graphs nested in the functions of graphs.
pub const NESTING_MAX: usize = 8;
/// The maximum number of bytes of an encoded graph.
pub const GRAPH_BYTES_MAX: usize = 16 << 20;
/// The maximum number of bytes of a name, such as a function, component, field or pattern.
pub const NAME_BYTES_MAX: usize = 4096;
/// The maximum number of elements that `shuffle`, `batch` or `prefetch` may hold.
pub const BUFFER_MAX: u64 = 1 << 24;

/// The maximum number of datasets that an `interleave` may have open. An open dataset usually holds at least
/// one open file.
pub const CYCLE_MAX: u64 = 4096;
