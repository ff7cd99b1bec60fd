//! Everything the dispatcher remembers: tables with owners, each with its rows, its indexes and its clocks.
//!
//! Rows are stored; indexes follow from them, and clocks begin again with each life of the dispatcher. No
//! owner knows another but by id: what concerns several is asked of [`Tables`], or done by the dispatcher.
//!
//! | file | what it owns |
//! |---|---|
//! | `all` | all owners, as records and as changes to be stored |
//! | `catalog` | datasets and jobs |
//! | `iterations` | iterations, and the requests that wait for their plans |
//! | `books` | plans, ledgers, and what tasks hold |
//! | `tasks`, `removals` | tasks, and those that were removed until their readers have answered |
//! | `clients` | clients, and what their users have in hand |
//! | `workers` | workers, their heartbeats and their places in the fixed list |
//! | `sessions` | processes, and the answers that they were given |
//! | `table`, `groups`, `stamps` | rows that know what changed; ids by owner; moments by key |

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
