//! Promises of the machine, one by one.

mod lifetimes;
mod naming;
mod people;
mod requests;
mod restart;
mod rig;
mod shares;
mod splits;
