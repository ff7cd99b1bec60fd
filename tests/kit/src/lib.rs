//! Tools that the tests of every crate share.
//!
//! Does not know any type of the product.

mod chance;
mod etcd;
mod rounds;

pub use chance::Chance;
pub use etcd::{EtcdCluster, EtcdTls};
pub use rounds::rounds;
