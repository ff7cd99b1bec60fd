//! The stored state of the dispatcher: tables with owners, each with its rows, its indexes and its clocks.
//!
//! Rows are stored. Indexes follow from the rows, and clocks restart with each life of the dispatcher. An
//! owner knows the rows of other tables by id only. [`Tables`] or the dispatcher carries out procedures
//! that concern several tables.
//!
//! | file | contents |
//! |---|---|
//! | `all` | all owners, their loading from records, and the changes to be stored |
//! | `catalog` | datasets and jobs |
//! | `iterations` | iterations, and the requests that wait for their plans |
//! | `books` | plans, ledgers, and the leases that tasks hold |
//! | `tasks`, `removals` | tasks, and removed tasks until their readers have acknowledged |
//! | `clients` | clients, and the splits that their users hold |
//! | `workers` | workers, their heartbeats and their places in the fixed list |
//! | `sessions` | processes, and the answers that they were given |
//! | `table`, `groups`, `stamps` | rows with a record of changes; ids by owner; moments by key |

mod all;
mod books;
mod catalog;
mod clients;
mod groups;
mod iterations;
mod removals;
mod sessions;
mod stamps;
mod table;
mod tasks;
mod workers;

pub(crate) use all::Tables;
pub(crate) use books::LeaseTerms;
pub(crate) use iterations::Opener;
