//! Tests of the stores.
//!
//! | module | promise |
//! |---|---|
//! | `conformance` | every store keeps exactly the committed records, whenever it is opened again |
//! | `damage` | a damaged file is refused by name, or the damage has no effect |
//! | `folder` | one dispatcher for each directory; files that only their user reads, and that shrink again
//! |
//! | `held` | a store from an earlier version opens with every record |
//! | `leaders` | only the latest leader of a store on etcd changes anything |
//! | `records` | records of every kind |
//! | `secured` | etcd with users, with TLS, and without space |

mod conformance;
mod damage;
mod folder;
mod held;
#[cfg(feature = "etcd")]
mod leaders;
mod records;
#[cfg(feature = "etcd")]
mod secured;
