//! Tests a worker's sessions message by message: which clients are accepted, which elements are sent, and
//! what survives the end of a link.

mod coordinated;
mod stepped;
mod superseded;
mod support;
mod trainers;

use std::time::Duration;

use millstream_dataplane::proto::message::{
    Cancel, Hello, PROTOCOL_VERSION, RefusalCode, Subscribe, ToClient, ToWorker,
};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::memory::Knobs;
use millstream_dataplane::transport::{Downstream, LinkLost};
use millstream_dataplane::worker::ServerConfig;
use millstream_link::ticket::{Claims, TicketKey};

use crate::support::{Client, KEY, TASK, WATCHDOG, add_task, server, server_with, write};

/// D1.1.
#[tokio::test]
async fn silent_or_foreign_peers_are_sent_away() {
    let server = server(WATCHDOG);
    let mut rude = Client::silent(&server, Knobs::default());
    rude.say(ToWorker::Cancel(Cancel {
        task: TASK,
        has_all: false,
    }))
    .await;
    assert!(matches!(rude.end().await, LinkLost::Misbehaved(_)));
    let mut newer = Client::silent(&server, Knobs::default());
    newer
        .say(ToWorker::Hello(Hello {
            version: PROTOCOL_VERSION + 1,
            features: 0,
        }))
        .await;
    let LinkLost::Misbehaved(reason) = newer.end().await else {
        panic!("the worker does not blame the client")
    };
    assert!(
        reason.contains(&(PROTOCOL_VERSION + 1).to_string())
            && reason.contains(&PROTOCOL_VERSION.to_string())
    );
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_not_heard() {
    let server = server(WATCHDOG);
    let _producer = add_task(&server);
    let mut client = Client::greeted(&server).await;
    let mut asked = 0;
    let mut idle = 0;
    // The session runs on this thread when this task yields. The session counts as idle after many rounds
    // without progress.
    while idle < 1000 {
        if client.can_speak().await {
            client.subscribe(1, 0).await;
            (asked, idle) = (asked + 1, 0);
            assert!(asked < 2000, "the worker queues answers without limit");
        }
        idle += 1;
        tokio::task::yield_now().await;
    }
    for answer in 0..asked {
        let message = client.message().await;
        assert!(matches!(message, ToClient::Accepted(_)), "{answer}: {message:?}");
    }
}

/// D3.1, D3.2.
#[tokio::test]
async fn forged_tickets_and_unknown_tasks_are_refused() {
    let server = server(WATCHDOG);
    let mut client = Client::greeted(&server).await;
    let forged = TicketKey::from_bytes([4; 32]).mint(&Claims {
        client: 1,
        task: TASK.0,
        consumer: None,
    });
    let other = TicketKey::from_bytes(KEY).mint(&Claims {
        client: 1,
        task: 8,
        consumer: None,
    });
    for ticket in [
        forged.as_bytes().to_vec(),
        other.as_bytes().to_vec(),
        Vec::new(),
        vec![0; 4000],
    ] {
        client
            .say(ToWorker::Subscribe(Subscribe {
                task: TASK,
                ticket,
                resume_from: 0,
                splits_from: 0,
                trainer_id: None,
                asked_before: 0,
            }))
            .await;
        let ToClient::Refused(refused) = client.message().await else {
            panic!("not refused")
        };
        assert_eq!((refused.task, refused.code), (TASK, RefusalCode::BadTicket));
    }
    client.subscribe(1, 0).await;
    let ToClient::Refused(refused) = client.message().await else {
        panic!("not refused")
    };
    assert_eq!(refused.code, RefusalCode::UnknownTask);
    let mut producer = add_task(&server);
    write(&mut producer, 0..3);
    client.subscribe(1, 0).await;
    assert!(matches!(client.message().await, ToClient::Accepted(_)));
    client.grant(3, 0).await;
    assert_eq!(client.elements(3).await, [0, 1, 2]);
}

/// D4.1, D5.1, D5.2.
#[tokio::test]
async fn exactly_the_granted_elements_are_sent() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..5);
    producer.split_done(9, 2);
    producer.finish(Ending::Exhausted);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(2, 0).await;
    assert_eq!(client.elements(2).await, [0, 1]);
    // A repeated grant changes nothing. The next element is sent because of the grant after it.
    client.grant(2, 2).await;
    client.grant(3, 2).await;
    assert_eq!(client.elements(1).await, [2]);
    client.grant(10, 3).await;
    assert_eq!(client.elements(2).await, [3, 4]);
    let ToClient::SplitDone(done) = client.message().await else {
        panic!("the worker did not end the split")
    };
    assert_eq!((done.lease, done.attempt, done.upto), (9, 2, 5));
    let ToClient::EndOfTask(end) = client.message().await else {
        panic!("no end")
    };
    assert_eq!(end.sent, 5);
    client.grant(10, 5).await;
    client.hears_nothing().await;
    assert!(!server.is_settled(TASK), "the end may still be lost in flight");
    client
        .say(ToWorker::Cancel(Cancel {
            task: TASK,
            has_all: false,
        }))
        .await;
    client.hears_nothing().await;
    assert!(server.is_settled(TASK));
}

/// D5.1, D5.5: a stopped task is neither exhausted nor failed.
#[tokio::test]
async fn a_task_that_is_stopped_tells_no_end() {
    let server = server(Duration::from_millis(50));
    let mut producer = add_task(&server);
    write(&mut producer, 0..2);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(8, 0).await;
    assert_eq!(client.elements(2).await, [0, 1]);
    server.remove_task(TASK);
    drop(producer);
    let ToClient::Yielded(yielded) = client.message().await else {
        panic!("the task kept its credits, or ended")
    };
    assert_eq!(yielded.total, 6);
    client.hears_nothing().await;
}

/// D5.2: a split that one client reports as done must have no element in flight to another client.
#[tokio::test]
async fn a_splits_end_waits_for_all_debtors() {
    for leaves in [false, true] {
        let server = server(WATCHDOG);
        let mut producer = add_task(&server);
        write(&mut producer, 0..4);
        producer.split_done(9, 2);
        producer.finish(Ending::Exhausted);
        let mut stalled = Client::accepted(&server, 1, 0).await;
        let mut other = Client::accepted(&server, 2, 0).await;
        stalled.grant(2, 0).await;
        assert_eq!(stalled.elements(2).await, [0, 1]);
        other.grant(2, 0).await;
        assert_eq!(other.elements(2).await, [2, 3]);
        other.grant(2, 1).await;
        other.hears_nothing().await;
        stalled.hears_nothing().await;
        let told = if leaves {
            stalled
                .say(ToWorker::Cancel(Cancel {
                    task: TASK,
                    has_all: false,
                }))
                .await;
            &mut other
        } else {
            other.grant(2, 2).await;
            &mut stalled
        };
        let ToClient::SplitDone(done) = told.message().await else {
            panic!("no end of the split")
        };
        assert_eq!((done.lease, done.attempt, done.upto), (9, 2, 2));
        assert!(matches!(other.message().await, ToClient::EndOfTask(_)));
    }
}

/// D3.4, D6.1, D6.2, D6.4.
#[tokio::test]
async fn a_returning_client_gets_the_missing_elements() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..10);
    producer.finish(Ending::Exhausted);
    let mut first = Client::accepted(&server, 1, 0).await;
    first.grant(6, 0).await;
    assert_eq!(first.elements(6).await, [0, 1, 2, 3, 4, 5]);
    // The first client acknowledged four elements. The later link takes over while the first link is open.
    let mut second = Client::accepted(&server, 1, 4).await;
    second.grant(9, 4).await;
    assert_eq!(second.elements(5).await, [4, 5, 6, 7, 8]);
    drop(second);
    let mut third = Client::greeted(&server).await;
    for gone in [3, 10] {
        third.subscribe(1, gone).await;
        let ToClient::Refused(refused) = third.message().await else {
            panic!("the worker resumed at element {gone}, which it no longer keeps")
        };
        assert_eq!(refused.code, RefusalCode::CannotResume);
    }
    third.subscribe(1, 9).await;
    assert!(matches!(third.message().await, ToClient::Accepted(_)));
    third.grant(10, 9).await;
    assert_eq!(third.elements(1).await, [9]);
    assert!(matches!(third.message().await, ToClient::EndOfTask(_)));
}

/// D3.4: the counts of an earlier link have no effect on a later link.
#[tokio::test]
async fn messages_of_superseded_links_have_no_effect() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..10);
    let mut first = Client::accepted(&server, 1, 0).await;
    first.grant(2, 0).await;
    assert_eq!(first.elements(2).await, [0, 1]);
    let mut second = Client::accepted(&server, 1, 2).await;
    second.grant(3, 2).await;
    assert_eq!(second.elements(1).await, [2]);
    first.grant(8, 2).await;
    first.hears_nothing().await;
    second.hears_nothing().await;
    let third = Client::accepted(&server, 1, 2).await;
    second
        .say(ToWorker::Cancel(Cancel {
            task: TASK,
            has_all: false,
        }))
        .await;
    second.hears_nothing().await;
    drop(third);
    let mut fourth = Client::accepted(&server, 1, 2).await;
    fourth.grant(4, 2).await;
    assert_eq!(fourth.elements(2).await, [2, 3]);
}

/// D3.4: a request on an earlier link may arrive later, because links are not ordered among each other.
#[tokio::test]
async fn a_late_old_subscription_takes_over_nothing() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..10);
    let mut first = Client::greeted(&server).await;
    let mut second = Client::greeted(&server).await;
    second.asked_before = 1;
    second.subscribe(1, 0).await;
    assert!(matches!(second.message().await, ToClient::Accepted(_)));
    second.grant(2, 0).await;
    assert_eq!(second.elements(2).await, [0, 1]);
    first.subscribe(1, 0).await;
    let ToClient::Refused(refused) = first.message().await else {
        panic!("the earlier request took over the subscription")
    };
    assert_eq!(refused.code, RefusalCode::CannotResume);
    second.grant(4, 2).await;
    assert_eq!(second.elements(2).await, [2, 3]);
}

/// D6.2, D6.4: a worker keeps no state of a client that is refused, or that was away for too long.
#[tokio::test]
async fn who_cannot_resume_or_stays_away_is_forgotten() {
    let server = server_with(ServerConfig {
        resume_within: Duration::ZERO,
        ..ServerConfig::default()
    });
    let producer = add_task(&server);
    producer.finish(Ending::Exhausted);
    let mut client = Client::greeted(&server).await;
    client.subscribe(1, 9).await;
    let ToClient::Refused(refused) = client.message().await else {
        panic!("the worker resumed at elements that it never sent")
    };
    assert_eq!(refused.code, RefusalCode::CannotResume);
    assert!(refused.message.contains("forgotten"), "{}", refused.message);
    assert!(server.is_settled(TASK));
    client.subscribe(1, 0).await;
    assert!(matches!(client.message().await, ToClient::Accepted(_)));
    assert!(!server.is_settled(TASK));
    client.leave().await;
    assert!(server.is_settled(TASK));
}

/// D6.2.
#[tokio::test]
async fn a_forgotten_clients_elements_are_not_called_delivered() {
    for acknowledged in [1, 2] {
        let server = server_with(ServerConfig {
            resume_within: Duration::ZERO,
            ..ServerConfig::default()
        });
        let mut producer = add_task(&server);
        write(&mut producer, 0..2);
        producer.finish(Ending::Exhausted);
        let mut client = Client::accepted(&server, 1, 0).await;
        client.grant(2, 0).await;
        assert_eq!(client.elements(2).await, [0, 1]);
        client.grant(2, acknowledged).await;
        client.leave().await;
        assert_eq!(server.is_settled(TASK), acknowledged == 2);
    }
}

/// D6.5.
#[tokio::test]
async fn who_acknowledges_nothing_is_sent_no_more() {
    let server = server_with(ServerConfig {
        unacknowledged_bytes: 1,
        ..ServerConfig::default()
    });
    let mut producer = add_task(&server);
    write(&mut producer, 0..10);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(3, 0).await;
    assert_eq!(client.elements(3).await, [0, 1, 2]);
    client.grant(u64::MAX, 2).await;
    client.hears_nothing().await;
    client.grant(u64::MAX, 3).await;
    assert_eq!(client.elements(7).await, [3, 4, 5, 6, 7, 8, 9]);
}

/// D4.3, D4.4.
#[tokio::test]
async fn an_idle_task_returns_credits_until_ready() {
    let server = server(Duration::from_millis(50));
    let mut producer = add_task(&server);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(8, 0).await;
    let ToClient::Yielded(yielded) = client.message().await else {
        panic!("the worker gave no credits back")
    };
    assert_eq!(yielded.total, 8);
    write(&mut producer, 0..1);
    let ToClient::Need(need) = client.message().await else {
        panic!("the worker did not announce the element")
    };
    assert_eq!(need.yielded, 8);
    client.grant(9, 0).await;
    assert_eq!(client.elements(1).await, [0]);
}

/// D3.3.
#[tokio::test]
async fn a_cancelled_subscription_is_forgotten() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..4);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(2, 0).await;
    assert_eq!(client.elements(2).await, [0, 1]);
    client
        .say(ToWorker::Cancel(Cancel {
            task: TASK,
            has_all: false,
        }))
        .await;
    // The cancelled subscription is forgotten. The new subscription begins with the remaining elements.
    client.subscribe(1, 0).await;
    assert!(matches!(client.message().await, ToClient::Accepted(_)));
    client.grant(2, 0).await;
    let Downstream::Pack(pack) = client.frame().await.expect("the link stands") else {
        panic!("no elements")
    };
    assert_eq!(pack, (0, vec![2, 3]));
}

/// Each element of a task is sent to only one of its clients.
#[tokio::test]
async fn two_clients_of_a_task_share_its_elements() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..100);
    producer.finish(Ending::Exhausted);
    let mut clients = [
        Client::accepted(&server, 1, 0).await,
        Client::accepted(&server, 2, 0).await,
    ];
    let mut all = Vec::new();
    for round in 1..=10 {
        for client in &mut clients {
            client.grant(5 * round, 5 * (round - 1)).await;
            all.extend(client.elements(5).await);
        }
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    // No client has a credit left, and the end needs no credit.
    for client in &mut clients {
        let ToClient::EndOfTask(end) = client.message().await else {
            panic!("no end")
        };
        assert_eq!(end.sent, 50);
    }
}

/// D6.2: a client cannot acknowledge elements that were never sent.
#[tokio::test]
async fn a_false_acknowledgement_ends_the_link() {
    let server = server(WATCHDOG);
    let _producer = add_task(&server);
    let mut client = Client::accepted(&server, 1, 0).await;
    client.grant(1, 1).await;
    assert!(matches!(client.end().await, LinkLost::Misbehaved(_)));
}
