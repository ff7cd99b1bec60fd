//! Tests a link whose client has reconnected on another link.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Hello, ToWorker};
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::{Downstream, LinkLost, LinkReport, TaskMemory, Transport, WorkerLink};

use crate::support::{All, Client, WATCHDOG, add_task, server, write};

/// A link that counts the tasks for which it is prepared.
#[derive(Debug)]
struct Counted {
    link: Box<WorkerLink>,
    tasks: Arc<AtomicI64>,
}

impl Transport for Counted {
    type Out = Downstream;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.link.poll_ready(cx)
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        self.link.try_send(frame)
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<ToWorker, LinkLost>> {
        self.link.poll_recv(cx)
    }

    fn close(&mut self, why: &LinkLost) {
        self.link.close(why);
    }

    fn attach(&mut self, task: TaskId, memory: &dyn TaskMemory) -> Result<(), LinkLost> {
        self.tasks.fetch_add(1, Ordering::SeqCst);
        self.link.attach(task, memory)
    }

    fn detach(&mut self, task: TaskId) -> Result<(), LinkLost> {
        self.tasks.fetch_sub(1, Ordering::SeqCst);
        self.link.detach(task)
    }

    fn is_network(&self) -> bool {
        self.link.is_network()
    }

    fn report(&self) -> LinkReport {
        self.link.report()
    }
}

/// D3.4.
#[tokio::test]
async fn a_superseded_link_releases_the_task() {
    let server = server(WATCHDOG);
    let mut producer = add_task(&server);
    write(&mut producer, 0..4);
    let (far, near) = memory::pair(Arc::new(All), Knobs::default());
    let tasks = Arc::<AtomicI64>::default();
    let counted = Counted {
        link: far,
        tasks: tasks.clone(),
    };
    let session = {
        let server = server.clone();
        tokio::spawn(async move { server.serve(Box::new(counted)).await })
    };
    let mut first = Client::on(near, session);
    first.say(ToWorker::Hello(Hello::current())).await;
    first.message().await;
    first.subscribe(1, 0).await;
    first.message().await;
    first.grant(2, 0).await;
    assert_eq!(first.elements(2).await, [0, 1]);
    assert_eq!(tasks.load(Ordering::SeqCst), 1);
    let mut second = Client::accepted(&server, 1, 2).await;
    second.grant(4, 2).await;
    assert_eq!(second.elements(2).await, [2, 3]);
    // The session notices the other link when it next looks for elements to send.
    write(&mut producer, 4..5);
    first.hears_nothing().await;
    assert_eq!(tasks.load(Ordering::SeqCst), 0);
}
