//! Tests that each waiting call is woken by the event that it waits for. No call polls in these tests.

use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::JoinHandle;

use millstream_client::{Canceller, ReadError, Reader, TaskEvent};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::Producer;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc;

use crate::support::{Read, Workers, identity, read, watched, write};

/// The outcome of a read: the number of an element, the end, or an error.
type Outcome = Result<Option<u64>, ReadError>;

/// The handles through which a test influences a waiting reader.
struct Around {
    producer: Option<Producer>,
    canceller: Canceller,
    events: mpsc::Sender<TaskEvent>,
}

impl Around {
    fn tell(&self, event: TaskEvent) {
        self.events.blocking_send(event).expect("the reader listens");
    }
}

/// An event that ends a wait, and the resulting outcome.
type Cause = (fn(&mut Around), Outcome);

fn causes() -> [Cause; 4] {
    [
        (
            |around| write(around.producer.as_mut().expect("here"), 0, 0).expect("written"),
            Ok(Some(0)),
        ),
        (
            |around| {
                around.tell(TaskEvent::IterationFinished);
                around.producer.take().expect("here").finish(Ending::Exhausted);
            },
            Ok(None),
        ),
        (
            |around| around.tell(TaskEvent::Failed("gone".into())),
            Err(ReadError::Dispatcher("gone".into())),
        ),
        (|around| around.canceller.cancel(), Err(ReadError::Cancelled)),
    ]
}

fn outcome(next: Result<Option<millstream_element::Element>, ReadError>) -> Outcome {
    next.map(|element| element.map(|element| identity(&element).1))
}

fn begin(workers: &Arc<Workers>) -> (Reader, Around) {
    let producer = workers.add_silent_task("a", 0, 1);
    let Read {
        reader,
        events,
        reports: _,
        lane: _,
    } = read(workers, 8);
    let canceller = reader.canceller();
    let around = Around {
        producer: Some(producer),
        canceller,
        events,
    };
    around.tell(workers.added("a", 0));
    (reader, around)
}

#[test]
fn a_blocked_thread_is_woken() {
    for (cause, expected) in causes() {
        watched(move || {
            let workers = Workers::patient(&["a"]);
            let (mut reader, mut around) = begin(&workers);
            let blocked: JoinHandle<Outcome> = std::thread::spawn(move || outcome(reader.next_element()));
            // The thread grants a credit under the lock that the lane thread needs to send the grant, and
            // releases the lock only to wait. Once the credit has arrived, the thread therefore waits.
            let producer = around.producer.as_ref().expect("here");
            producer.wait_started().expect("not stopped");
            cause(&mut around);
            assert_eq!(blocked.join().expect("no panic"), expected);
        });
    }
}

/// A waker that records its wake-up.
#[derive(Debug, Default)]
struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut has_rung = self.has_rung.lock();
        while !std::mem::take(&mut *has_rung) {
            self.rings.wait(&mut has_rung);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.has_rung.lock() = true;
        self.rings.notify_all();
    }
}

#[test]
fn a_task_that_polled_is_woken() {
    for (cause, expected) in causes() {
        watched(move || {
            let workers = Workers::patient(&["a"]);
            let (mut reader, mut around) = begin(&workers);
            let bell = Arc::new(Bell::default());
            let waker = bell.clone().into();
            let mut cx = Context::from_waker(&waker);
            assert!(reader.poll_element(&mut cx).is_pending());
            cause(&mut around);
            let next = loop {
                bell.wait();
                if let Poll::Ready(next) = reader.poll_element(&mut cx) {
                    break next;
                }
            };
            assert_eq!(outcome(next), expected);
        });
    }
}
