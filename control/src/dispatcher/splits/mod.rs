//! The books of one iteration's splits: pure numbers. A task appears in the books only as the id of the
//! task that returned splits.
//!
//! | file | contents |
//! |---|---|
//! | `ledger` | the counts of splits that are not yet leased, free again, done, or lost |
//! | `holding` | the splits that one task holds |
//! | `piece` | the remaining splits of one leased batch |
//! | `run` | consecutive splits under consecutive leases |

mod holding;
mod ledger;
mod piece;
mod run;

pub use holding::Holding;
pub use ledger::Ledger;
pub(crate) use ledger::{Dealing, Suspects};
pub use run::Run;
