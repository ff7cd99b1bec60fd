//! Tests the tasks that a worker accepts, elements that cannot be sent, and the memory that tasks keep.

use std::sync::Arc;

use millstream_dataplane::TaskId;
use millstream_dataplane::worker::{AddTaskError, ProduceError, Server, ServerConfig, TaskMode};
use millstream_element::{Dtype, ElementSpec, HeapAlloc, SlotAlloc, TensorSpec};
use millstream_link::ticket::TicketKey;

const TASK: TaskId = TaskId(7);

fn server(config: ServerConfig) -> Server {
    let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
    Server::new(config, TicketKey::from_bytes([3; 32]), &alloc).expect("no threads to start")
}

#[test]
fn an_unservable_task_is_refused_with_the_reason() {
    let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
    let config = ServerConfig {
        tasks_max: 1,
        ..ServerConfig::default()
    };
    let server = server(config);
    let of_bytes = |bytes: u64| ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[bytes])).expect("a spec");
    let add = |task, spec: &ElementSpec| {
        server
            .add_task(TaskId(task), TaskMode::FirstCome, spec, alloc.clone())
            .map(drop)
    };
    let element_bytes = (4 << 30) + 40;
    assert_eq!(
        add(1, &of_bytes(4 << 30)),
        Err(AddTaskError::ElementTooLarge {
            task: TaskId(1),
            element_bytes
        })
    );
    let endless = add(1, &of_bytes(1 << 60)).expect_err("more than any memory");
    assert!(matches!(endless, AddTaskError::Shape { .. }), "{endless}");
    assert_eq!(add(1, &of_bytes(8)), Ok(()));
    assert_eq!(
        add(1, &of_bytes(8)),
        Err(AddTaskError::Served { task: TaskId(1) })
    );
    assert_eq!(
        add(2, &of_bytes(8)),
        Err(AddTaskError::TooMany {
            task: TaskId(2),
            tasks_max: 1
        })
    );
}

/// A specification without sizes does not show that an element is too large; only the element shows it.
#[test]
fn an_unsendable_element_is_its_producers_error() {
    let server = server(ServerConfig::default());
    let any = ElementSpec::single(TensorSpec::with_dims(Dtype::U8, &[None])).expect("a spec");
    let mut producer = server
        .add_task(TASK, TaskMode::FirstCome, &any, Arc::new(HeapAlloc))
        .expect("a new task");
    let needed_bytes = (4 << 30) + 40;
    let written = producer.write::<()>(|_, _| Err(ProduceError::Full { needed_bytes }));
    assert!(
        matches!(written, Err(ProduceError::TooLarge { element_bytes }) if element_bytes == needed_bytes),
        "{written:?}"
    );
}

/// A worker that checks its clients every few seconds also returns idle memory of its arenas.
#[cfg(target_os = "linux")]
#[test]
fn unneeded_memory_returns_at_the_next_look() {
    let server = server(ServerConfig::default());
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[8])).expect("a spec");
    let producer = server.add_task(TASK, TaskMode::FirstCome, &spec, Arc::new(HeapAlloc));
    let _producer = producer.expect("a new task");
    let arena = server.arena(TASK).expect("the system has memory");
    drop(arena.alloc(1 << 20).expect("room"));
    server.forget_absent();
    assert_eq!(
        server.arenas().held_bytes,
        1 << 20,
        "it was needed since the last look"
    );
    server.forget_absent();
    assert_eq!(server.arenas().held_bytes, 0);
}
