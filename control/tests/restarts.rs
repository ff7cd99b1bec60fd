//! Tests of a dispatcher that restarts, with or without its memory.

use std::time::Duration;

use millstream_control::agent::AgentEvent;
use millstream_control::{Code, DiskStore, MemoryStore, Policy, Store};
use millstream_link::Role;

use crate::support::{Cluster, SharedStore, open, stop, task_added, within};

/// C1.8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_without_memory_is_a_new_one() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let address = server.local_addr();
    let mut worker = cluster.worker("worker:1", address).await;
    let client = cluster.connect(Role::Submit, address).await.unwrap();
    let mut iteration = open(&client, "10", Policy::Off).await;
    worker.started().await;
    task_added(&mut iteration).await;
    stop(server).await;
    let _server = cluster.dispatcher(Some(address), Box::new(MemoryStore::new()));
    let error = within("the client's error", iteration.next_push())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::Aborted);
    assert!(error.message.contains("restarted"), "{error}");
    assert_eq!(worker.event().await, AgentEvent::DispatcherRestarted);
    let fresh = cluster.connect(Role::Submit, address).await.unwrap();
    let _iteration = open(&fresh, "10", Policy::Off).await;
    worker.started().await;
}

/// C1.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_continues_with_its_memory() {
    let store = SharedStore::new();
    goes_on_where_it_was(|| Box::new(store.clone())).await;
}

/// C1.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_continues_with_its_work_directory() {
    let folder = tempfile::tempdir().unwrap();
    goes_on_where_it_was(|| Box::new(DiskStore::open(folder.path()).unwrap())).await;
}

/// Tests that a stopping dispatcher sends no answer, so that its successor answers (C1.6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarting_dispatcher_answers_through_its_successor() {
    let (cluster, store) = (Cluster::new(), SharedStore::new());
    let server = cluster.dispatcher(None, Box::new(store.clone()));
    let address = server.local_addr();
    let client = cluster.connect(Role::Submit, address).await.unwrap();
    server.stopper().stop();
    let ended = async {
        while !server.has_ended() {
            tokio::task::yield_now().await;
        }
    };
    within("the end of its loop", ended).await;
    // The connections of the stopped loop are still open.
    let mut asked = tokio::spawn(async move { client.status().await });
    let answered = tokio::time::timeout(Duration::from_millis(100), &mut asked).await;
    assert!(answered.is_err(), "{answered:?}");
    stop(server).await;
    let _server = cluster.dispatcher(Some(address), Box::new(store));
    within("an answer", asked).await.unwrap().unwrap();
}

async fn goes_on_where_it_was(store: impl Fn() -> Box<dyn Store>) {
    let cluster = Cluster::new();
    let server = cluster.dispatcher(None, store());
    let address = server.local_addr();
    let mut worker = cluster.worker("worker:1", address).await;
    let client = cluster.connect(Role::Submit, address).await.unwrap();
    let mut iteration = open(&client, "10", Policy::Dynamic).await;
    let task = worker.started().await.task;
    task_added(&mut iteration).await;
    let begun = worker.read_some(task, 4).await;
    stop(server).await;
    let _server = cluster.dispatcher(Some(address), store());
    worker.read_to_the_end(&mut iteration, task, begun, 10).await;
}

/// C7.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lapsed_lease_drops_the_workers_tasks() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "10", Policy::Dynamic).await;
    let task = worker.started().await.task;
    let feed = worker.agent.splits(task).unwrap();
    drop(server);
    assert_eq!(worker.event().await, AgentEvent::LeaseLapsed);
    drop(feed);
    assert!(worker.agent.splits(task).is_err());
}
