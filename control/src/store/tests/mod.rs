//! Tests of the stores.
//!
//! | module | promise |
//! |---|---|
//! | `conformance` | every store keeps exactly the committed records, whenever it is opened again |
//! | `damage` | a damaged file is refused by name, or the damage has no effect |
//! | `folder` | one dispatcher for each directory; files that only their user reads, and that shrink again
//! |
//! | `held` | a store from an earlier version opens with every record |
//! | `records` | records of every kind |

mod conformance;
mod damage;
mod folder;
mod held;
mod records;
