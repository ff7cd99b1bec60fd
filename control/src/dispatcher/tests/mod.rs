//! Tests of the state machine's promises, one by one.

mod caching;
mod closing;
mod commits;
mod deaths;
mod drain;
mod exactness;
mod happened;
mod in_step;
mod lifetimes;
mod missed;
mod naming;
mod order;
mod paces;
mod people;
mod poison;
mod quarantine;
mod quota;
mod record_size;
mod requests;
mod restart;
mod rig;
mod round_ends;
mod rounds;
mod shares;
mod splits;
mod targets;
