//! Elements on the way from a link to the consumer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use millstream_dataplane::TaskId;
use millstream_dataplane::transport::Body;
use millstream_element::{Layout, Pack};
use tokio::time::Instant;

/// The next elements for the consumer.
#[derive(Debug)]
pub(crate) enum Handing {
    /// All elements of a delivery.
    Pack(Delivery),
    /// The first element of a delivery, in a coordinated read.
    First(Delivery),
    /// A further element of a pack that the consumer has already opened.
    Further {
        task: TaskId,
        worker: Arc<str>,
        layout: Arc<Layout>,
        pack: Pack,
        index: usize,
    },
}

/// Elements on the way to the consumer.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) task: TaskId,
    pub(crate) worker: Arc<str>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) body: Body,
    /// The time when the elements arrived.
    pub(crate) arrived: Instant,
}
