//! The operation `shuffle_and_repeat`, which repeats its input and shuffles every pass.

mod definition;
pub(crate) mod exec;

pub use definition::ShuffleAndRepeat;
