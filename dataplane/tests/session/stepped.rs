//! Tests sessions that producers step: which threads are woken for which events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Hello, ToClient, ToWorker};
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::{LinkLost, LinkReport, TaskMemory, Transport, WorkerLink};
use millstream_dataplane::worker::{ProduceError, Producer};
use millstream_element::{Shape, WriteError};

use crate::support::{All, Client, WATCHDOG, add_task, server};

/// A worker's end of a link that counts how often its session registers for the client's messages.
#[derive(Debug)]
struct Counting {
    link: Box<WorkerLink>,
    asked: Arc<AtomicUsize>,
}

impl Transport for Counting {
    type Out = <WorkerLink as Transport>::Out;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.link.poll_ready(cx)
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        self.link.try_send(frame)
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<ToWorker, LinkLost>> {
        let received = self.link.poll_recv(cx);
        if received.is_pending() {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        received
    }

    fn try_recv(&mut self) -> Result<Option<ToWorker>, LinkLost> {
        self.link.try_recv()
    }

    fn close(&mut self, why: &LinkLost) {
        self.link.close(why);
    }

    fn attach(&mut self, task: TaskId, memory: &dyn TaskMemory) -> Result<(), LinkLost> {
        self.link.attach(task, memory)
    }

    fn is_network(&self) -> bool {
        self.link.is_network()
    }

    fn report(&self) -> LinkReport {
        self.link.report()
    }
}

/// The number of elements committed at once. The number suffices for a step of the session, whatever the
/// time.
const RUN: u64 = 1024;

fn write_run(producer: &mut Producer, first: u64) {
    let written: Result<(), ProduceError<WriteError>> = producer.write(|pack, layout| {
        for number in first..first + RUN {
            match pack.begin(layout, &[Shape::fixed(&[1])], 0) {
                Ok(element) => element.finish(number, &[]).map_err(ProduceError::Compute)?,
                Err(WriteError::Full { needed_bytes, .. }) => {
                    return Err(ProduceError::Full { needed_bytes });
                }
                Err(error) => return Err(ProduceError::Compute(error)),
            }
        }
        Ok(())
    });
    written.expect("a pack has room for a run");
}

/// The clock is paused, so that no timer makes the session check by itself.
#[tokio::test(start_paused = true)]
async fn a_stepping_producer_spares_the_sessions_thread() {
    const ROUNDS: u64 = 20;
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    let (far, link) = memory::pair(Arc::new(All), Knobs::default());
    let asked = Arc::new(AtomicUsize::new(0));
    let far = Box::new(Counting {
        link: far,
        asked: asked.clone(),
    });
    let session = tokio::spawn(async move { server.serve(far).await });
    let mut client = Client::on(link, session);
    client.say(ToWorker::Hello(Hello::current())).await;
    assert!(matches!(client.message().await, ToClient::Hello(_)));
    client.subscribe(1, 0).await;
    assert!(matches!(client.message().await, ToClient::Accepted(_)));
    client.grant(2 * RUN, 0).await;
    client.hears_nothing().await;
    let before = asked.load(Ordering::Relaxed);
    assert!(
        before > 0,
        "the idle session must register for its client's messages"
    );
    for round in 0..ROUNDS {
        write_run(&mut producer, round * RUN);
        let numbers = Vec::from_iter(round * RUN..(round + 1) * RUN);
        assert_eq!(client.elements(RUN as usize).await, numbers);
        client.grant((round + 3) * RUN, (round + 1) * RUN).await;
        // Lets the session's own task run, if an event woke it.
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), before);
}
