//! Tests of workers, splits and clients that meet, and find each other again.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_control::agent::AgentEvent;
use millstream_control::{
    ClientPush, FailedElement, FailureReport, JobParameters, LeaseRange, Phase, Policy, RemovalReason, Seen,
    SourcePlan, SplitRange, StopReason,
};
use millstream_link::{Claims, Role, Ticket};

use crate::support::{Cluster, open, open_job, task_added, told, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tasks_end_ends_the_iteration() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let mut iteration = open(&client, "files a b c", Policy::Dynamic).await;
    let info = task_added(&mut iteration).await;
    let def = worker.started().await;
    assert_eq!((info.task, info.worker_address.as_str()), (def.task, "worker:1"));
    assert_eq!(&def.dataset.definition[..], b"files a b c");
    let claims = Claims {
        client: iteration.client_id().0,
        task: info.task.0,
        consumer: None,
    };
    let ticket = Ticket::from_bytes(&info.ticket).unwrap();
    assert_eq!(worker.key.verify(&ticket), Ok(claims));
    let splits = worker.read_all(def.task).await;
    let payloads: Vec<&[u8]> = splits.iter().map(|split| &split.payload[..]).collect();
    assert_eq!(payloads, [b"a", b"b", b"c"]);
    let leases = LeaseRange::collect(splits.iter().map(|split| split.lease));
    iteration.splits_done(def.task, &leases).await.unwrap();
    worker.agent.finish_task(def.task, false).await.unwrap();
    iteration.task_drained(def.task).await.unwrap();
    assert_eq!(
        told(&mut iteration).await,
        ClientPush::IterationFinished { splits_lost: 0 }
    );
    let stopped = AgentEvent::StopTask {
        task: def.task,
        reason: StopReason::Settled,
    };
    assert_eq!(worker.event().await, stopped);
    let status = client.status().await.unwrap();
    assert_eq!(
        (status.iterations[0].phase, status.iterations[0].splits_done),
        (Phase::Finished, 3)
    );
    within("the release", iteration.release()).await.unwrap();
    assert_eq!(client.status().await.unwrap().counts.clients, 0);
    within("the shutdown", server.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_off_every_worker_gets_the_same_listing() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut workers = [
        cluster.worker("worker:1", server.local_addr()).await,
        cluster.worker("worker:2", server.local_addr()).await,
    ];
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "files a b", Policy::Off).await;
    let listing = SourcePlan::listed([b"a".to_vec(), b"b".to_vec()]);
    for (index, worker) in (0..).zip(&mut workers) {
        let def = worker.started().await;
        assert_eq!(def.plan.sources, std::slice::from_ref(&listing));
        assert_eq!(def.worker_index, index);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_splits_without_gap_or_double() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut first = cluster.worker("worker:1", server.local_addr()).await;
    let mut second = cluster.worker("worker:2", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "20000", Policy::Dynamic).await;
    let (a, b) = (first.started().await.task, second.started().await.task);
    let (read_a, read_b) = tokio::join!(first.read_all(a), second.read_all(b));
    let total = read_a.len() + read_b.len();
    let indices: BTreeSet<u64> = read_a.iter().chain(&read_b).map(|split| split.index).collect();
    assert_eq!(total, 20_000);
    assert_eq!(indices, (0..20_000).collect());
}

/// C6.1, C6.4, C6.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_workers_splits_go_to_others() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut dies = cluster.worker("dies:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let mut iteration = open(&client, "10", Policy::Dynamic).await;
    let gone = dies.started().await.task;
    assert_eq!(task_added(&mut iteration).await.task, gone);
    let (feed, read) = dies.read_some(gone, 3).await;
    let mut lives = cluster.worker("lives:2", server.local_addr()).await;
    let kept = lives.started().await.task;
    assert_eq!(task_added(&mut iteration).await.task, kept);
    dies.die();
    let removed = told(&mut iteration).await;
    let ClientPush::TaskRemoved(removed) = removed else {
        panic!("expected a removal, not {removed:?}")
    };
    assert_eq!(
        (removed.task, removed.reason),
        (gone, RemovalReason::WorkerSilent)
    );
    drop(feed);
    let mut arrived = lives.read_all(kept).await;
    let leases = LeaseRange::collect(arrived.iter().map(|split| split.lease));
    iteration.splits_done(kept, &leases).await.unwrap();
    lives.agent.finish_task(kept, true).await.unwrap();
    assert_eq!(told(&mut iteration).await, ClientPush::TaskEnded { task: kept });
    let seen = Seen {
        complete: vec![LeaseRange::one(read[0].lease)],
        partial: vec![LeaseRange::one(read[1].lease)],
        ..Seen::default()
    };
    iteration.acknowledge_removal(gone, seen).await.unwrap();
    let lost = told(&mut iteration).await;
    assert_eq!(lost, one_lost(read[1].index, "dies:1"));
    let again = match lives.event().await {
        AgentEvent::StartTask(def) => def.task,
        AgentEvent::StopTask { task, .. } => {
            assert_eq!(task, kept);
            lives.started().await.task
        }
        other @ (AgentEvent::LeaseLapsed
        | AgentEvent::DispatcherRestarted
        | AgentEvent::ReleaseClient { .. }
        | AgentEvent::ShutDown { .. }
        | AgentEvent::Failed(_)) => {
            panic!("expected a task, not {other:?}")
        }
    };
    let rest = lives.read_all(again).await;
    let leases = LeaseRange::collect(rest.iter().map(|split| split.lease));
    iteration.splits_done(again, &leases).await.unwrap();
    arrived.extend(rest);
    let repeated: Vec<u32> = arrived
        .iter()
        .filter(|split| split.index == 2)
        .map(|split| split.attempt)
        .collect();
    assert_eq!(repeated, [1], "the unseen split comes under the next attempt");
    let mut indices: Vec<u64> = arrived.iter().map(|split| split.index).collect();
    indices.sort_unstable();
    assert_eq!(indices, (2..10).collect::<Vec<_>>());
    lives.agent.finish_task(again, true).await.unwrap();
    assert_eq!(task_added(&mut iteration).await.task, again);
    assert_eq!(told(&mut iteration).await, ClientPush::TaskEnded { task: again });
    assert_eq!(
        told(&mut iteration).await,
        ClientPush::IterationFinished { splits_lost: 1 }
    );
}

/// Returns the push for the loss of one split of the first pass over the first source.
fn one_lost(index: u64, worker_address: &str) -> ClientPush {
    ClientPush::SplitsLost {
        splits: vec![SplitRange {
            source: 0,
            repetition: 0,
            first: index,
            count: 1,
        }],
        worker_address: worker_address.to_owned(),
    }
}

/// C7.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_learn_the_names_of_killed_workers() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("dies:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let mut iteration = open(&client, "10", Policy::Off).await;
    let task = worker.started().await.task;
    assert_eq!(task_added(&mut iteration).await.task, task);
    worker.die();
    assert!(matches!(told(&mut iteration).await, ClientPush::TaskRemoved(_)));
    let workers = vec!["dies:1".to_owned()];
    assert_eq!(told(&mut iteration).await, ClientPush::WorkersLost { workers });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_worker_is_gone_at_once() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("leaves:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let mut iteration = open(&client, "10", Policy::Dynamic).await;
    worker.started().await;
    task_added(&mut iteration).await;
    worker.agent.leave().await.unwrap();
    let push = told(&mut iteration).await;
    let ClientPush::TaskRemoved(removed) = push else {
        panic!("expected a removal, not {push:?}")
    };
    assert_eq!(removed.reason, RemovalReason::WorkerLeft);
}

/// Tests that a client which attaches later is told of an earlier failure (C6.6, C4.1).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_client_hears_the_failure_first() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let (job, _first) = open_job(&client, "10", Policy::Off).await;
    let task = worker.started().await.task;
    let report = FailureReport {
        message: "no such function: resize".to_owned(),
        element: Some(FailedElement {
            split: 3,
            id: u64::MAX,
            yielded: 2,
        }),
    };
    worker.agent.fail_task(task, &report).await.unwrap();
    let mut late = within("opening", client.open_iteration(job, 0, None))
        .await
        .unwrap();
    let failed = ClientPush::TaskFailed {
        task,
        worker_address: "worker:1".to_owned(),
        message: report.message,
        element: report.element,
    };
    assert_eq!(told(&mut late).await, failed);
    assert_eq!(
        told(&mut late).await,
        ClientPush::IterationFinished { splits_lost: 0 }
    );
}

/// Tests that a task without confirmations is paused, not failed, and continues when its reader confirms
/// (C5.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconfirmed_task_waits_for_its_reader() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| config.dispatcher.held_splits_max = 8);
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let iteration = open(&client, "50", Policy::Dynamic).await;
    let task = worker.started().await.task;
    let mut feed = worker.agent.splits(task).unwrap();
    let (sender, mut read) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::task::spawn_blocking(move || {
        while let Some(split) = feed.next(0, 0).unwrap() {
            sender.send(split.lease).unwrap();
        }
    });
    let mut unconfirmed = Vec::new();
    let mut count = 0;
    while count < 50 {
        unconfirmed.push(within("a split", read.recv()).await.unwrap());
        count += 1;
        if unconfirmed.len() == 8 {
            let leases = LeaseRange::collect(unconfirmed.drain(..));
            iteration.splits_done(task, &leases).await.unwrap();
        }
    }
    within("the end", reading).await.unwrap();
}

/// Tests a task of an ordered job whose producer pauses after few splits, as with full buffers. The task
/// still leases splits for an outage, and returns them all at its end (C5.9, C5.5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_producer_leases_and_returns_splits() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let dataset = client.register_dataset(None, b"1000".to_vec()).await.unwrap();
    let parameters = JobParameters {
        in_order: true,
        ..JobParameters::new(dataset, Policy::Dynamic)
    };
    let job = client.find_or_create_job(None, &parameters).await.unwrap();
    let _iteration = within("opening", client.open_iteration(job, 0, None))
        .await
        .unwrap();
    let task = worker.started().await.task;
    let mut feed = worker.agent.splits(task).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        for _ in 0..5 {
            feed.next(0, 0).unwrap().unwrap();
            std::thread::sleep(Duration::from_millis(250));
        }
        feed.next(0, 0).unwrap().unwrap();
        feed
    });
    let feed = within("six splits", reading).await.unwrap();
    let leased = async |is_reached: fn(u64) -> bool| {
        while !is_reached(client.status().await.unwrap().iterations[0].splits_leased) {
            tokio::task::yield_now().await;
        }
    };
    // Without requests that follow each other, six started splits lease at most 24 splits.
    within("leases", leased(|splits| splits >= 30)).await;
    drop(feed);
    within("the return", leased(|splits| splits == 6)).await;
}

/// Tests a pipeline whose own buffers hold all splits: it fails with advice instead of waiting for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_waiting_task_is_told_the_cure() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| config.dispatcher.held_splits_max = 8);
    let mut worker = cluster
        .configured_worker("worker:1", server.local_addr(), |config| {
            config.hold_deadline = Duration::from_millis(100);
        })
        .await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "50", Policy::Dynamic).await;
    let task = worker.started().await.task;
    let mut feed = worker.agent.splits(task).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        loop {
            if let Err(error) = feed.next(0, 0) {
                return error.to_string();
            }
        }
    });
    let error = within("the refusal", reading).await.unwrap();
    assert!(error.contains("shuffle smaller"), "{error}");
}
