//! Tests the consumers of a coordinated read, each on a link of its own.

use std::num::NonZeroU32;

use millstream_dataplane::proto::message::{Hello, RefusalCode, ToClient};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::{Producer, Server, TaskMode};

use crate::support::{Client, WATCHDOG, add_task, add_task_as, server, write};

fn add_coordinated_task(server: &Server, consumers: u32) -> Producer {
    let consumers = NonZeroU32::new(consumers).expect("some");
    add_task_as(server, TaskMode::Coordinated { consumers })
}

/// Connects consumer `i` as client `100 + i`.
async fn consumer(server: &Server, consumer: u32, resume_from: u64) -> Client {
    subscribed(Client::greeted(server).await, consumer, resume_from).await
}

async fn subscribed(mut client: Client, consumer: u32, resume_from: u64) -> Client {
    let number = 100 + u64::from(consumer);
    client.subscribe_as(number, Some(consumer), resume_from).await;
    assert!(matches!(client.message().await, ToClient::Accepted(_)));
    client
}

/// Waits until `groups` groups are released, by one message or several.
async fn expect_released(client: &mut Client, groups: u64) {
    let mut told = 0;
    while told < groups {
        let ToClient::Released(released) = client.message().await else {
            panic!("the worker released no group")
        };
        assert!(released.groups > told, "the worker sent the same release twice");
        told = released.groups;
    }
    assert_eq!(told, groups);
}

/// D7.1, D7.3, D7.4.
#[tokio::test]
async fn what_all_consumers_acknowledged_is_released_to_each() {
    let server = server(WATCHDOG);
    let mut producer = add_coordinated_task(&server, 2);
    write(&mut producer, 0..8);
    let mut first = consumer(&server, 0, 0).await;
    first.grant(3, 0).await;
    assert_eq!(first.elements(3).await, [0, 2, 4]);
    first.grant(3, 3).await;
    first.hears_nothing().await;
    let mut second = consumer(&server, 1, 0).await;
    second.grant(2, 0).await;
    assert_eq!(second.elements(2).await, [1, 3]);
    second.grant(2, 1).await;
    expect_released(&mut first, 1).await;
    expect_released(&mut second, 1).await;
    second.grant(2, 2).await;
    expect_released(&mut first, 2).await;
    // A client that reconnects receives the release again, and the acknowledgement in its subscription
    // counts.
    first.leave().await;
    let mut first = consumer(&server, 0, 3).await;
    expect_released(&mut first, 2).await;
    first.grant(4, 3).await;
    assert_eq!(first.elements(1).await, [6]);
}

/// D7.2.
#[tokio::test]
async fn a_consumers_place_is_its_own() {
    let server = server(WATCHDOG);
    let mut producer = add_coordinated_task(&server, 2);
    write(&mut producer, 0..4);
    let mut first = consumer(&server, 0, 0).await;
    first.grant(1, 0).await;
    assert_eq!(first.elements(1).await, [0]);
    let mut other = Client::greeted(&server).await;
    for (client, place, code) in [
        (7, None, RefusalCode::BadTicket),
        (7, Some(2), RefusalCode::BadTicket),
        (7, Some(0), RefusalCode::CannotResume),
        (101, Some(1), RefusalCode::CannotResume),
    ] {
        // Client 101 asks to resume after an element that it never had.
        let resume_from = u64::from(client == 101);
        other.subscribe_as(client, place, resume_from).await;
        let ToClient::Refused(refused) = other.message().await else {
            panic!("the worker accepted consumer {place:?}")
        };
        assert_eq!(refused.code, code, "{}", refused.message);
    }
    other.subscribe_as(101, Some(1), 0).await;
    assert!(matches!(other.message().await, ToClient::Accepted(_)));
    other.grant(1, 0).await;
    assert_eq!(other.elements(1).await, [1]);
}

/// D7.2: a task without consumers has no place for a consumer.
#[tokio::test]
async fn a_consumer_is_refused_where_there_are_none() {
    let server = server(WATCHDOG);
    let _producer = add_task(&server);
    let mut client = Client::greeted(&server).await;
    client.subscribe_as(7, Some(0), 0).await;
    let ToClient::Refused(refused) = client.message().await else {
        panic!("the worker accepted a consumer")
    };
    assert_eq!(refused.code, RefusalCode::BadTicket);
}

/// D7.5: the client of consumer 1 is of an earlier version, which receives a failure instead of the end.
#[tokio::test]
async fn a_coordinated_end_follows_the_release() {
    let server = server(WATCHDOG);
    let mut producer = add_coordinated_task(&server, 2);
    write(&mut producer, 0..3);
    producer.finish(Ending::Exhausted);
    let hello = Hello {
        features: 0,
        ..Hello::current()
    };
    let earlier = Client::greeted_with(&server, hello).await;
    let mut clients = [consumer(&server, 0, 0).await, subscribed(earlier, 1, 0).await];
    for (client, elements) in clients.iter_mut().zip([vec![0, 2], vec![1]]) {
        let count = elements.len() as u64;
        client.grant(count, 0).await;
        assert_eq!(client.elements(elements.len()).await, elements);
        client.hears_nothing().await;
        client.grant(count, count).await;
    }
    let [current, earlier] = &mut clients;
    expect_released(current, 1).await;
    let ToClient::EndOfTask(end) = current.message().await else {
        panic!("the worker sent no end")
    };
    assert_eq!(end.sent, 2);
    expect_released(earlier, 1).await;
    let ToClient::TaskError(error) = earlier.message().await else {
        panic!("the worker sent no failure")
    };
    assert_eq!(
        (error.sent, error.failure.code.as_str()),
        (1, "failed_precondition")
    );
    assert!(
        error.failure.message.contains("update the client"),
        "{}",
        error.failure
    );
    assert!(
        !server.is_settled(crate::support::TASK),
        "no client has cancelled yet"
    );
}
