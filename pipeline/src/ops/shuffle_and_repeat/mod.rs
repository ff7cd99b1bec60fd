//! `shuffle_and_repeat`: the input several times over, each pass shuffled.

mod definition;
pub(crate) mod exec;

pub use definition::ShuffleAndRepeat;
