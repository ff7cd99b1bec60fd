//! Promises of the machine, one by one.

mod naming;
mod people;
mod requests;
mod rig;
mod splits;
