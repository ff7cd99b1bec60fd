//! A client that a test controls message by message, and its worker.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Grant, Hello, Subscribe, ToClient, ToWorker};
use millstream_dataplane::proto::receive::ReceiveError;
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::{Admission, ClientLink, Downstream, LinkLost};
use millstream_dataplane::worker::{ProduceError, Producer, Server, ServerConfig, SessionEnd, TaskMode};
use millstream_element::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Shape, SlotAlloc, TensorSpec, WriteError,
};
use millstream_link::ticket::{Claims, TicketKey};
use tokio::task::JoinHandle;

pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);
pub(crate) const TASK: TaskId = TaskId(7);
pub(crate) const KEY: [u8; 32] = [3; 32];

#[derive(Debug)]
pub(crate) struct All;

impl Admission for All {
    fn admit(&self, _: TaskId, _: u64, _: u64, _: u64) -> Result<(), ReceiveError> {
        Ok(())
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &HeapAlloc
    }
}

pub(crate) fn spec() -> ElementSpec {
    ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[1])).expect("a spec")
}

pub(crate) fn add_task(server: &Server) -> Producer {
    add_task_as(server, TaskMode::FirstCome)
}

pub(crate) fn add_task_as(server: &Server, mode: TaskMode) -> Producer {
    let producer = server.add_task(TASK, mode, &spec(), Arc::new(HeapAlloc));
    producer.expect("a new task")
}

pub(crate) fn server(patience: Duration) -> Server {
    server_with(ServerConfig {
        patience,
        ..ServerConfig::default()
    })
}

pub(crate) fn server_with(config: ServerConfig) -> Server {
    let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
    Server::new(config, TicketKey::from_bytes(KEY), &alloc).expect("no threads to start")
}

pub(crate) fn write(producer: &mut Producer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let written: Result<(), ProduceError<()>> = producer.write(|pack, layout| {
            let mut element = match pack.begin(layout, &[Shape::fixed(&[1])], 0) {
                Ok(element) => element,
                Err(WriteError::Full { needed_bytes, .. }) => {
                    return Err(ProduceError::Full { needed_bytes });
                }
                Err(error) => panic!("{error}"),
            };
            element.component_mut(0).copy_from_slice(&number.to_le_bytes());
            element.finish(number, &[]).expect("as begun");
            Ok(())
        });
        written.expect("written");
    }
}

/// A client that sends exactly the messages of a test.
pub(crate) struct Client {
    link: Box<ClientLink>,
    session: JoinHandle<SessionEnd>,
    trainer_id: Option<&'static str>,
    /// The number of earlier requests that the client reports.
    pub(crate) asked_before: u64,
}

impl Client {
    pub(crate) fn silent(server: &Server, knobs: Knobs) -> Self {
        let (far, link) = memory::pair(Arc::new(All), knobs);
        let server = server.clone();
        Self::on(link, tokio::spawn(async move { server.serve(far).await }))
    }

    /// Makes a client whose link the given session serves.
    pub(crate) fn on(link: Box<ClientLink>, session: JoinHandle<SessionEnd>) -> Self {
        Self {
            link,
            session,
            trainer_id: None,
            asked_before: 0,
        }
    }

    /// Makes a client that has exchanged hello messages with the worker.
    pub(crate) async fn greeted(server: &Server) -> Self {
        Self::greeted_with(server, Hello::current()).await
    }

    /// Connects a client whose version sends this hello message.
    pub(crate) async fn greeted_with(server: &Server, hello: Hello) -> Self {
        let mut client = Self::silent(server, Knobs::default());
        client.say(ToWorker::Hello(hello)).await;
        assert_eq!(client.message().await, ToClient::Hello(Hello::current()));
        client
    }

    pub(crate) async fn say(&mut self, message: ToWorker) {
        poll_fn(|cx| self.link.poll_ready(cx))
            .await
            .expect("the link stands");
        self.link.try_send(message).expect("room");
    }

    /// Returns whether the link accepts a message now.
    pub(crate) async fn can_speak(&mut self) -> bool {
        poll_fn(|cx| std::task::Poll::Ready(self.link.poll_ready(cx).is_ready())).await
    }

    pub(crate) async fn subscribe(&mut self, client: u64, resume_from: u64) {
        self.subscribe_as(client, None, resume_from).await;
    }

    pub(crate) async fn subscribe_as(&mut self, client: u64, consumer: Option<u32>, resume_from: u64) {
        let ticket = TicketKey::from_bytes(KEY).mint(&Claims {
            client,
            task: TASK.0,
            consumer,
        });
        let subscribe = Subscribe {
            ticket: ticket.as_bytes().to_vec(),
            resume_from,
            trainer_id: self.trainer_id.map(str::to_owned),
            task: TASK,
            splits_from: 0,
            asked_before: self.asked_before,
        };
        self.say(ToWorker::Subscribe(subscribe)).await;
    }

    /// Makes a client that reads as this trainer.
    pub(crate) async fn trainer(server: &Server, client: u64, id: &'static str, resume_from: u64) -> Self {
        let mut this = Self::greeted(server).await;
        this.trainer_id = Some(id);
        this.subscribe(client, resume_from).await;
        assert!(matches!(this.message().await, ToClient::Accepted(_)), "{id}");
        this
    }

    pub(crate) async fn accepted(server: &Server, client: u64, resume_from: u64) -> Self {
        let mut this = Self::greeted(server).await;
        this.subscribe(client, resume_from).await;
        let ToClient::Accepted(accepted) = this.message().await else {
            panic!("not accepted")
        };
        assert_eq!(ElementSpec::from_bytes(&accepted.spec).expect("a spec"), spec());
        this
    }

    pub(crate) async fn grant(&mut self, limit: u64, received: u64) {
        let grant = Grant {
            task: TASK,
            limit,
            element_bytes: 4096,
            received,
            splits: 0,
            waiting: None,
            handed: None,
        };
        self.say(ToWorker::Grant(grant)).await;
    }

    pub(crate) async fn frame(&mut self) -> Result<Downstream<(u64, Vec<u64>)>, LinkLost> {
        let frame = tokio::time::timeout(WATCHDOG, poll_fn(|cx| self.link.poll_recv(cx)))
            .await
            .expect("the worker sent no frame in time");
        Ok(match frame? {
            Downstream::Message(message) => Downstream::Message(message),
            Downstream::Pack(pack) => {
                let layout = Layout::new(spec()).expect("a layout");
                let first = pack.first;
                let pack = pack.pack.open(&HeapAlloc).expect("whole");
                let open = |slot| {
                    Element::open(slot, &layout, Origin::Foreign)
                        .expect("sound")
                        .sequence()
                };
                Downstream::Pack((first, pack.slots().map(open).collect()))
            }
        })
    }

    pub(crate) async fn message(&mut self) -> ToClient {
        match self.frame().await.expect("the link stands") {
            Downstream::Message(message) => message,
            Downstream::Pack(pack) => panic!("expected a message, found the elements {pack:?}"),
        }
    }

    /// Checks that the session has handled all earlier messages, and has nothing to send.
    pub(crate) async fn hears_nothing(&mut self) {
        // Any frame caused by the first answer would arrive before the second answer.
        for _ in 0..2 {
            let unknown = Subscribe {
                task: TaskId(u64::MAX),
                ticket: Vec::new(),
                resume_from: 0,
                splits_from: 0,
                trainer_id: None,
                asked_before: 0,
            };
            self.say(ToWorker::Subscribe(unknown)).await;
            assert!(matches!(self.message().await, ToClient::Refused(_)));
        }
    }

    /// Receives the next `count` elements, without a message between them.
    pub(crate) async fn elements(&mut self, count: usize) -> Vec<u64> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.frame().await.expect("the link stands") {
                Downstream::Pack((_, elements)) => all.extend(elements),
                Downstream::Message(message) => panic!("expected elements, found {message:?}"),
            }
        }
        all
    }

    /// Drops the link, and waits until the worker's session has ended.
    pub(crate) async fn leave(self) {
        let Self { link, session, .. } = self;
        drop(link);
        let end = tokio::time::timeout(WATCHDOG, session).await;
        end.expect("the session did not end").expect("no panic");
    }

    /// Returns the reason for which the worker ended the link.
    pub(crate) async fn end(self) -> LinkLost {
        let end = tokio::time::timeout(WATCHDOG, self.session)
            .await
            .expect("the session goes on");
        end.expect("no panic").lost
    }
}
