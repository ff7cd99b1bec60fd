//! Tests of the stores.
//!
//! | module | promise |
//! |---|---|
//! | `conformance` | every store keeps exactly what was committed, whenever it is opened again |
//! | `damage` | a file that is not what was written is refused by name, or does no harm |
//! | `folder` | one dispatcher a directory; files that only their user reads, and that shrink again |
//! | `held` | a store that an earlier version wrote opens with every record |
//! | `records` | records of every kind |

mod conformance;
mod damage;
mod folder;
mod held;
mod records;
