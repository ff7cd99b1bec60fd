//! The channels between a reader and the client of the dispatcher, or a test that replaces that client.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::event::TaskEvent;
use crate::pace::PaceMeter;
use crate::report::Report;

/// The connections of a reader to its dispatcher.
#[derive(Debug)]
pub struct Feed {
    /// The events of the iteration, in order.
    pub events: mpsc::Receiver<TaskEvent>,
    /// Reports to the dispatcher. Each report must be delivered before the next report, because the report of
    /// a task's removal omits splits that were reported before. The reader merges reports that find the
    /// channel full. The last reports are sent after the reader has dropped `events`.
    pub reports: mpsc::Sender<Report>,
    /// The meter in which the reader records its pace.
    pub pace: Arc<PaceMeter>,
    /// The dispatcher's address, as text for people.
    pub dispatcher: String,
}
