//! A graph being executed: a tree of pull iterators, one per operation, from the sources to elements written into their
//! slots.

mod budget;
mod cancel;
mod error;
mod item;
mod iterate;
mod random;
mod splits;
mod state;
mod token;
mod value;

pub use budget::{BUDGET_BYTES_DEFAULT, Budget, Charge};
pub use cancel::Cancel;
pub use error::{BoxError, ErrorKind, ExecError, Failure, Origin};
pub use item::Item;
pub use iterate::{Filled, Input, Iterate, Stop};
pub use splits::{Split, SplitError, SplitSource};
pub use state::{STATE_BYTES_MAX, StateError, StateReader, StateWriter};
pub use token::{FinishedSplit, Ledger, Mark, Marks, SplitToken};
pub use value::{Dims, Fill, Inline, Tensor, TensorData, Value};

pub(crate) use random::file_order;
