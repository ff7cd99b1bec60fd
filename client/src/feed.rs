//! The channels between a reader and the dispatcher's client, or a test in its place.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::event::TaskEvent;
use crate::pace::PaceMeter;
use crate::report::Report;

/// The connections of a reader to its dispatcher.
#[derive(Debug)]
pub struct Feed {
    /// Events of the iteration, in order.
    pub events: mpsc::Receiver<TaskEvent>,
    /// Reports to the dispatcher, each to be delivered before the next: what a task's removal leaves out was
    /// reported before. What finds no room here is joined with what follows. The last ones come when the
    /// other end of `events` is gone.
    pub reports: mpsc::Sender<Report>,
    /// The meter in which the reader notes its pace.
    pub pace: Arc<PaceMeter>,
    /// The dispatcher's address, for people.
    pub dispatcher: String,
}
