//! Tests of the view of a reader from other threads.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream_client::ReaderConfig;
use millstream_dataplane::proto::send::Ending;
use parking_lot::Mutex;

use crate::support::{Workers, expect, read_with, watched};

#[test]
fn counts_stay_after_the_end_of_a_reader() {
    watched(|| {
        let (started, watches) = mpsc::channel();
        let started = Mutex::new(started);
        let config = ReaderConfig {
            on_started: Some(Arc::new(move |watch| {
                started.lock().send(watch).expect("the test listens");
            })),
            worker_give_up: Duration::from_secs(3600),
            ..ReaderConfig::default()
        };
        let workers = Workers::new(&["a"]);
        let mut read = read_with(&workers, config);
        let watch = watches.recv().expect("the reader has started");
        read.tell(workers.add_task("a", 0, 2, 1, Ending::Exhausted));
        expect(&mut read, 0, 0..2);
        assert_eq!(watch.view().map(|view| view.reconnects), Some(0));
        workers.cut("a");
        workers.start("a");
        read.tell(workers.add_task("a", 1, 2, 1, Ending::Exhausted));
        expect(&mut read, 1, 0..2);
        let before = watch.view().expect("the reader runs");
        assert!(before.reconnects > 0 && !watch.has_ended());
        drop(read);
        let after = watch.view().expect("the last state stays");
        assert!(watch.has_ended());
        assert_eq!((after.reconnects, after.ready), (before.reconnects, 0));
        assert_eq!(
            after.links.keys().collect::<Vec<_>>(),
            before.links.keys().collect::<Vec<_>>()
        );
    });
}
