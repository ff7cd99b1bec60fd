//! Tests the trainers of a task that is read through the cross-trainer cache, each on a link of its own.

use std::sync::Arc;

use millstream_dataplane::proto::message::{RefusalCode, ToClient};
use millstream_dataplane::worker::{CacheLimits, Server, ServerConfig, TaskMode};

use crate::support::{Client, WATCHDOG, add_task_as, server_with, write};

/// The bytes of an element, including the gap after it.
const STRIDE: u64 = 64;

/// Makes a server whose cache keeps this number of elements.
fn keeping(elements: u64) -> Server {
    server_with(ServerConfig {
        patience: WATCHDOG,
        cache: CacheLimits {
            task_bytes: elements * STRIDE,
            ..CacheLimits::default()
        },
        ..ServerConfig::default()
    })
}

/// D6.1, D8.3: elements are sent again even after the window has moved beyond them.
#[tokio::test]
async fn unacknowledged_elements_are_sent_again() {
    let server = keeping(2);
    let mut producer = add_task_as(&server, TaskMode::Cached);
    write(&mut producer, 0..20);
    let mut slow = Client::trainer(&server, 1, "slow", 0).await;
    slow.grant(6, 0).await;
    assert_eq!(slow.elements(6).await, [0, 1, 2, 3, 4, 5]);
    let mut fast = Client::trainer(&server, 2, "fast", 0).await;
    fast.grant(10, 0).await;
    assert_eq!(fast.elements(10).await, (4..14).collect::<Vec<_>>());
    drop(slow);
    let mut slow = Client::trainer(&server, 1, "slow", 2).await;
    slow.grant(9, 2).await;
    // After the resent elements, the trainer continues at the oldest kept element.
    assert_eq!(slow.elements(7).await, [2, 3, 4, 5, 12, 13, 14]);
}

/// D8.2
#[tokio::test]
async fn a_returning_trainer_continues_at_its_place() {
    let server = keeping(100);
    let mut producer = add_task_as(&server, TaskMode::Cached);
    write(&mut producer, 0..20);
    for (client, expected) in [(1, [0, 1, 2]), (2, [3, 4, 5]), (3, [6, 7, 8])] {
        let mut trainer = Client::trainer(&server, client, "one", 0).await;
        trainer.grant(3, 0).await;
        assert_eq!(trainer.elements(3).await, expected);
        trainer.leave().await;
    }
}

/// D8.1
#[tokio::test]
async fn a_nameless_trainer_is_refused() {
    let server = keeping(1);
    let _producer = add_task_as(&server, TaskMode::Cached);
    let mut client = Client::greeted(&server).await;
    client.subscribe(1, 0).await;
    let ToClient::Refused(refused) = client.message().await else {
        panic!("not refused")
    };
    assert_eq!(refused.code, RefusalCode::WrongReader);
    assert!(refused.message.contains("trainer_id"), "{}", refused.message);
    assert!(client.can_speak().await);
}

/// A removed task keeps no memory, even while a client of the task is connected.
#[tokio::test]
async fn a_removed_task_returns_its_memory() {
    let alloc = millstream_element::Pool::new(1 << 20);
    let server = keeping(100);
    let spec = crate::support::spec();
    let producer = server.add_task(
        crate::support::TASK,
        TaskMode::Cached,
        &spec,
        Arc::new(alloc.clone()),
    );
    let mut producer = producer.expect("a new task");
    write(&mut producer, 0..20);
    let mut client = Client::trainer(&server, 1, "one", 0).await;
    client.grant(20, 0).await;
    client.elements(20).await;
    client.grant(20, 20).await;
    assert!(
        client.can_speak().await,
        "the session has received the acknowledgement"
    );
    let stats = server.cache();
    assert_eq!((stats.tasks, stats.misses, stats.bytes), (1, 20, 20 * STRIDE));
    server.remove_task(crate::support::TASK);
    drop(producer);
    assert_eq!(server.cache().bytes, 0);
    client.leave().await;
    assert_eq!(server.cache().tasks, 0);
    assert_eq!(alloc.stats().in_use_bytes, 0);
}

/// Readers of the host share the memory of the window, which is freed with the task.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tasks_arena_is_used_and_returned() {
    let alloc = millstream_element::Pool::new(1 << 20);
    let server = keeping(100);
    let (task, spec) = (crate::support::TASK, crate::support::spec());
    assert!(
        server.arena(task).is_none(),
        "a task that does not exist has no arena"
    );
    let producer = server.add_task(task, TaskMode::Cached, &spec, Arc::new(alloc.clone()));
    let mut producer = producer.expect("a new task");
    let arena = server.arena(task).expect("the system has memory");
    write(&mut producer, 0..20);
    let mut client = Client::trainer(&server, 1, "one", 0).await;
    client.grant(20, 0).await;
    client.elements(20).await;
    assert!(arena.in_use_bytes() > 0);
    assert_eq!(server.arenas().held_bytes, arena.held_bytes() as u64);
    assert_eq!(alloc.stats().held_bytes, 0);
    server.remove_task(task);
    drop(producer);
    client.leave().await;
    assert_eq!(arena.in_use_bytes(), 0);
    drop(arena);
    assert_eq!(server.arenas().held_bytes, 0);
}
