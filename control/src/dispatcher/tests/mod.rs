//! Promises of the machine, one by one.
