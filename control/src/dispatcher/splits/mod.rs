//! The books of one iteration's splits: pure numbers. They know no task but as the name of who gave splits
//! back.
//!
//! | file | what it owns |
//! |---|---|
//! | `ledger` | what is not dealt out, free again, done, lost |
//! | `holding` | what one task holds |
//! | `piece` | what is left of one leased batch |
//! | `run` | consecutive splits under consecutive leases |

mod holding;
mod ledger;
mod piece;
mod run;

pub use holding::Holding;
pub(crate) use ledger::Dealing;
pub use ledger::Ledger;
pub use run::Run;
