//! Fuzz targets of the control plane: its messages, its records, and the dispatcher that handles them.
//! CONTRIBUTING.md explains how to search for new inputs.

use std::collections::VecDeque;
use std::time::Duration;

use millstream_link::Role;
use minicbor::{Decode, Decoder, Encode};

use crate::dispatcher::{
    Action, ClientPush, Departure, Dispatcher, DispatcherConfig, Event, Incoming, Moment, Record, ReplyToken,
    TaskDef, WorkerPush,
};
use crate::id::{BootId, SessionId};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::rpc::wire::{Beat, Envelope, Hello, Welcome, WirePush, WireReply, WireResponse};

/// The number of random inputs of each target in a test run, in addition to the corpus.
const RANDOM_INPUTS: usize = 200;

/// Decodes a message, and checks that it stays the same when it is encoded and decoded again.
fn decoded<T: for<'b> Decode<'b, ()> + Encode<()>>(bytes: &[u8]) -> Option<T> {
    let message: T = minicbor::decode(bytes).ok()?;
    let encoded = minicbor::to_vec(&message).unwrap();
    let again: T = minicbor::decode(&encoded).expect("an encoded message can be decoded");
    assert_eq!(minicbor::to_vec(&again).unwrap(), encoded);
    Some(message)
}

#[test]
fn requests() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            if let Some(envelope) = decoded::<Envelope>(bytes) {
                let _ = envelope.request.into_domain(Some(facts()));
            }
        });
}

#[test]
fn answers() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            if let Some(WireResponse {
                result: Ok(WireReply::Task(task)),
            }) = decoded(bytes)
            {
                let _ = TaskDef::from(task);
            }
        });
}

#[test]
fn pushes() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| match decoded::<WirePush>(bytes) {
            Some(WirePush::Client(_, push)) => drop(ClientPush::from(push)),
            Some(WirePush::Worker(push)) => drop(WorkerPush::from(push)),
            Some(WirePush::Beat(_)) | None => {}
        });
}

#[test]
fn greetings() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let _ = decoded::<Hello>(bytes);
            let _ = decoded::<Welcome>(bytes);
            if let Some(beat) = decoded::<Beat>(bytes) {
                let _ = beat.into_domain();
            }
        });
}

#[test]
fn records() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            if let Ok(record) = Record::from_bytes(bytes) {
                let again = Record::from_bytes(&record.to_bytes()).expect("an encoded record can be decoded");
                assert_eq!(again.to_bytes(), record.to_bytes());
            }
        });
}

/// Lets peers of every role send arbitrary messages. The dispatcher's invariants must hold, and no request
/// may have more than one answer.
#[test]
fn dispatching() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| Rig::new().run(bytes));
}

/// A dispatcher with the counts of requests and of answers.
struct Rig {
    dispatcher: Dispatcher,
    now: Moment,
    asked: u64,
    answered: u64,
}

impl Rig {
    fn new() -> Rig {
        let now = Moment::default();
        Rig {
            dispatcher: Dispatcher::new(DispatcherConfig::default(), BootId(1), now),
            now,
            asked: 0,
            answered: 0,
        }
    }

    /// Runs the messages of an input. Each message follows a byte: two bits for the session, two bits for
    /// the role, and the rest for the kind of event.
    fn run(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(head) = bytes.get(at) {
            at += 1;
            let session = SessionId(u64::from(head & 3) + 1);
            let role = Role::ALL[usize::from(head >> 2 & 3)];
            match head >> 4 {
                0 => self.pass(Duration::from_secs(40)),
                1 => self.handle(Event::Disconnected {
                    session,
                    departure: Departure::Lost,
                }),
                2 => self.handle(Event::Disconnected {
                    session,
                    departure: Departure::Goodbye,
                }),
                3 => {
                    let mut decoder = Decoder::new(&bytes[at..]);
                    let Ok(beat) = decoder.decode::<Beat>() else {
                        return;
                    };
                    at += decoder.position();
                    let (clients, measures) = beat.into_domain();
                    self.handle(Event::Heartbeat {
                        session,
                        worker: role == Role::Worker,
                        clients,
                    });
                    self.handle(Event::Measured { session, measures });
                }
                _ => {
                    let mut decoder = Decoder::new(&bytes[at..]);
                    let Ok(envelope) = decoder.decode::<Envelope>() else {
                        return;
                    };
                    at += decoder.position();
                    self.ask(session, role, envelope);
                }
            }
        }
        assert!(self.answered <= self.asked, "a request was answered twice");
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.handle(Event::Woken);
    }

    fn ask(&mut self, session: SessionId, role: Role, envelope: Envelope) {
        let Ok(request) = envelope.request.into_domain(Some(facts())) else {
            return;
        };
        self.asked += 1;
        self.handle(Event::Asked(Incoming {
            token: ReplyToken(self.asked),
            session,
            role,
            number: envelope.number,
            settled_below: envelope.settled_below,
            request,
        }));
    }

    fn handle(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.dispatcher.handle(event, self.now);
            for action in self.dispatcher.take_batch().actions {
                if let Action::PlanSplits { iteration, .. } = action {
                    let result = Ok(SplitPlan {
                        sources: vec![SourcePlan::Counted { splits: 5 }],
                        seed: 9,
                    });
                    events.push_back(Event::SplitsPlanned { iteration, result });
                } else if let Action::Reply { .. } = action {
                    self.answered += 1;
                }
            }
        }
    }
}

/// Returns the facts of a dataset that every sharding policy can read.
fn facts() -> DatasetFacts {
    DatasetFacts {
        spec: vec![1],
        cardinality: Cardinality::Finite(100),
        splittable: Ok(()),
        aligned: Ok(()),
        not_by_files: None,
        has_shard_hint: false,
        compression: None,
    }
}
