//! Promises of the machine, one by one.

mod naming;
mod people;
mod rig;
