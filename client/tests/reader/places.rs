//! Tests of workers that are reached by a local socket: the reader connects to the worker's current socket.

use millstream_client::{TaskEvent, TaskSource, WorkerPlace};
use millstream_dataplane::proto::send::Ending;

use crate::support::{Workers, identity, read, watched};

fn place(socket: &str) -> WorkerPlace {
    WorkerPlace {
        local_socket: Some(socket.to_owned()),
        ..WorkerPlace::at("a")
    }
}

fn there(event: TaskEvent, socket: &str) -> TaskEvent {
    let TaskEvent::Added(source) = event else {
        panic!("{event:?} has no place")
    };
    let worker = place(socket);
    TaskEvent::Added(TaskSource { worker, ..source })
}

/// C14.6: a reader that reconnected before it knew the new socket later moves to that socket.
#[test]
fn a_reader_follows_its_worker_to_another_socket() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 4);
        let tasks = [(0, "@first"), (1, "@first"), (2, "@second"), (3, "@second")];
        let mut seen = Vec::new();
        for (task, socket) in tasks {
            let added = workers.add_task("a", task, 100, 1, Ending::Exhausted);
            read.tell(there(added, socket));
            for _ in 0..50 {
                seen.push(identity(
                    &read.reader.next_element().expect("no failure").expect("more"),
                ));
            }
        }
        read.tell(TaskEvent::IterationFinished);
        while let Some(element) = read.reader.next_element().expect("no failure") {
            seen.push(identity(&element));
        }
        seen.sort_unstable();
        let all = (0..4).flat_map(|task| (0..100).map(move |index| (task, index)));
        assert!(seen.into_iter().eq(all));
        assert_eq!(*workers.dialled.lock(), [place("@first"), place("@second")]);
    });
}
