//! The input of a scaling policy: the readers and workers of a service at one moment.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::time::Duration;

/// The readers and workers of a service at one moment. An average is `None` while nobody has reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observation {
    /// The number of readers of running iterations.
    pub(crate) readers: u64,
    /// The numbers that stand for the datasets of the readers. Another dataset may need other workers.
    pub(crate) datasets: BTreeSet<u64>,
    /// The number of living workers that take tasks. Draining workers do not count.
    pub(crate) workers: u64,
    /// The number of these workers that have reported the pace of a running task.
    pub(crate) producing: u64,
    /// True if a reader waits for its first element.
    pub(crate) is_starting: bool,
    /// The largest share of its time in which a reader waits for elements, from 0 to 1.
    pub(crate) waiting: Option<f64>,
    /// The number of busy workers: the sum of the shares of time in which workers compute. Elements beyond
    /// the pace of the readers do not count.
    pub(crate) load: Option<f64>,
    /// The elements that all readers take in a second.
    pub(crate) rate: f64,
    /// The elements that all readers would take in a second if none of them waited.
    pub(crate) demand: f64,
    /// The longest time that a user works on an element. For a user that takes one element in each step, this
    /// is the length of the steps.
    pub(crate) step: Duration,
    /// The time after which the elements of new workers reach the readers. Readers in order first take the
    /// splits that other workers hold.
    pub(crate) lag: Duration,
    /// The number of workers that would satisfy the demand of all readers, each worker at its present pace
    /// without idle times.
    pub(crate) estimate: Option<u64>,
}
