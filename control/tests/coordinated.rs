//! Tests of coordinated reads over real connections: consumers in several processes, late and lost workers,
//! and a restart.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_control::rpc::{Client, IterationHandle};
use millstream_control::{ClientPush, Code, JobId, JobParameters, Policy, Seen, TaskConcluded, TaskId};
use millstream_link::{Claims, Role, Ticket};

use crate::support::{Cluster, FailingStore, SharedStore, stop, task_added, told, within};

/// Returns a named job, which each of its consumers requests.
async fn job(client: &Client, consumers: u32) -> JobId {
    let dataset = client.register_dataset(None, b"10".to_vec()).await.unwrap();
    let parameters = JobParameters {
        num_consumers: Some(consumers),
        ..JobParameters::new(dataset, Policy::Off)
    };
    client.find_or_create_job(None, &parameters).await.unwrap()
}

async fn open(client: &Client, job: JobId, consumer: u32) -> IterationHandle {
    let opening = client.open_iteration(job, 0, Some(consumer));
    within("opening", opening).await.unwrap()
}

fn released(groups: u64) -> Seen {
    Seen {
        released: groups,
        ..Seen::default()
    }
}

async fn removed(iteration: &mut IterationHandle) -> TaskId {
    let push = told(iteration).await;
    let ClientPush::TaskRemoved(removed) = push else {
        panic!("expected a removal, not {push:?}")
    };
    removed.task
}

/// C9.2 to C9.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_agree_across_a_dispatchers_restart() {
    let cluster = Cluster::new();
    let store = SharedStore::new();
    let server = cluster.dispatcher(None, Box::new(store.clone()));
    let address = server.local_addr();
    let mut first_worker = cluster.worker("worker:1", address).await;
    let processes = [
        cluster.connect(Role::Submit, address).await.unwrap(),
        cluster.connect(Role::Read, address).await.unwrap(),
    ];
    let job = job(&processes[0], 2).await;
    let mut one = open(&processes[0], job, 0).await;
    let mut other = open(&processes[1], job, 1).await;
    assert_eq!(first_worker.started().await.num_consumers, Some(2));
    let mut gone = TaskId(0);
    for (consumer, iteration) in [(0, &mut one), (1, &mut other)] {
        let info = task_added(iteration).await;
        assert_eq!(info.start_round, Some(0));
        let claims = Claims {
            client: iteration.client_id().0,
            task: info.task.0,
            consumer: Some(consumer),
        };
        let ticket = Ticket::from_bytes(&info.ticket).unwrap();
        assert_eq!(first_worker.key.verify(&ticket), Ok(claims));
        gone = info.task;
    }

    let _late_worker = cluster.worker("worker:2", address).await;
    let late = task_added(&mut one).await;
    assert_eq!(
        (late.start_round, task_added(&mut other).await.task),
        (None, late.task)
    );
    one.reporter().round_ready(late.task, 7).await.unwrap();
    stop(server).await;
    let _server = cluster.dispatcher(Some(address), Box::new(store));
    // The snapshot repeats the late task, in case the consumer's answer was lost.
    for iteration in [&mut one, &mut other] {
        assert_eq!(task_added(iteration).await.task, late.task);
    }
    other.reporter().round_ready(late.task, 4).await.unwrap();
    let scheduled = ClientPush::TaskScheduled {
        task: late.task,
        start_round: 7,
    };
    assert_eq!(
        [told(&mut one).await, told(&mut other).await],
        [scheduled.clone(), scheduled]
    );

    first_worker.die();
    assert_eq!([removed(&mut one).await, removed(&mut other).await], [gone; 2]);
    one.acknowledge_removal(gone, released(6)).await.unwrap();
    other.acknowledge_removal(gone, released(5)).await.unwrap();
    let verdict = ClientPush::TaskConcluded(TaskConcluded {
        task: gone,
        groups: 6,
    });
    assert_eq!(
        [told(&mut one).await, told(&mut other).await],
        [verdict.clone(), verdict]
    );
    let confirmed = async {
        while processes[0].status().await.unwrap().iterations[0].removals > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the confirmations", confirmed).await;
}

/// C9.5: a full store refuses the confirmations of a verdict. The consumers send them again, because the
/// iteration does not end before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_confirmations_are_sent_again() {
    let cluster = Cluster::new();
    let is_full = Arc::new(Mutex::new(false));
    let server = cluster.dispatcher(None, Box::new(FailingStore::full(&is_full)));
    let worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let job = job(&client, 1).await;
    let mut only = open(&client, job, 0).await;
    task_added(&mut only).await;
    worker.die();
    let task = removed(&mut only).await;
    only.acknowledge_removal(task, released(3)).await.unwrap();
    *is_full.lock().unwrap() = true;
    // The dispatcher refuses requests once the store has refused a change.
    let refusal = async { while client.register_dataset(None, b"20".to_vec()).await.is_ok() {} };
    within("a refusal", refusal).await;
    let verdict = told(&mut only).await;
    assert!(matches!(verdict, ClientPush::TaskConcluded(_)), "{verdict:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.status().await.unwrap().iterations[0].removals, 1);
    *is_full.lock().unwrap() = false;
    let confirmed = async {
        while client.status().await.unwrap().iterations[0].removals > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the confirmation", confirmed).await;
}

/// C9.2, C9.8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumers_second_life_is_refused() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| {
        config.dispatcher.consumer_timeout = Duration::from_millis(200);
    });
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let job = job(&client, 2).await;
    let mut stays = open(&client, job, 0).await;
    let leaves = open(&client, job, 1).await;
    within("the release", leaves.release()).await.unwrap();
    let again = client.open_iteration(job, 0, Some(1)).await.unwrap_err();
    assert_eq!(again.code, Code::FailedPrecondition);
    assert!(
        again.message.contains("current round is past its first"),
        "{again}"
    );
    for consumer in [None, Some(2)] {
        let error = client.open_iteration(job, 0, consumer).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
    }
    let lost = ClientPush::ConsumersLost { consumers: vec![1] };
    assert_eq!(told(&mut stays).await, lost);
}
