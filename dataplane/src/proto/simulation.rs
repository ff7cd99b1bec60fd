//! Simulates both halves of a subscription over a network that delays and reorders messages and breaks links.
//! The reader must see every element once and in order. The outstanding elements must never exceed the
//! granted credits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millstream_element::{HeapAlloc, Pack, SlotAlloc};
use proptest::prelude::*;

use super::message::{TaskId, ToClient};
use super::receive::{Arrival, ReceiveHalf};
use super::send::{Ending, Next, SendHalf, SendLimits, Shortage, TaskPack};

const TASK: TaskId = TaskId(7);
const PATIENCE: Duration = Duration::from_millis(50);

/// Makes a pack of elements with these sizes. Each element begins with its number.
fn pack(first: u64, sizes: &[u64]) -> Pack {
    let strides: Vec<usize> = sizes
        .iter()
        .map(|size| size.next_multiple_of(64) as usize)
        .collect();
    let padding = strides[sizes.len() - 1] - sizes[sizes.len() - 1] as usize;
    let mut slot = HeapAlloc.alloc(strides.iter().sum::<usize>() - padding).unwrap();
    let mut start = 0;
    for (index, stride) in strides.iter().enumerate() {
        slot[start..start + 8].copy_from_slice(&(first + index as u64).to_le_bytes());
        start += stride;
    }
    Pack::from_parts(slot.freeze(), sizes).unwrap()
}

fn numbers(pack: &Pack) -> Vec<u64> {
    pack.slots()
        .map(|element| u64::from_le_bytes(element[..8].try_into().unwrap()))
        .collect()
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// The reader grants credits up to its bound.
    Grant,
    /// The reader acknowledges the elements that arrived.
    Acknowledge,
    /// The worker sends packs of at most this many elements.
    Send(u64),
    /// A random pack in flight, or the oldest message in flight, arrives.
    Deliver(prop::sample::Index),
    /// The oldest grant in flight arrives.
    DeliverGrant,
    /// The producer makes this number of elements, each of this number of bytes.
    Produce(u64, u64),
    /// The producer ends a split after its latest element.
    EndSplit,
    /// The producer ends the task.
    End,
    /// The patience of the worker expires.
    Wait,
    /// The link breaks, and a new link replaces it.
    Cut,
    /// The reader takes all elements that arrived.
    Read,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Grant),
        1 => Just(Step::Acknowledge),
        4 => (1u64..9).prop_map(Step::Send),
        6 => any::<prop::sample::Index>().prop_map(Step::Deliver),
        4 => Just(Step::DeliverGrant),
        3 => (1u64..20, 8u64..300).prop_map(|(elements, bytes)| Step::Produce(elements, bytes)),
        1 => Just(Step::EndSplit),
        1 => Just(Step::End),
        1 => Just(Step::Wait),
        1 => Just(Step::Cut),
        4 => Just(Step::Read),
    ];
    proptest::collection::vec(step, 0..300)
}

pub(super) struct World {
    now: Instant,
    pub(super) worker: SendHalf,
    pub(super) client: ReceiveHalf<Pack>,
    grants: VecDeque<super::message::Grant>,
    packs: Vec<TaskPack>,
    messages: VecDeque<ToClient>,
    /// The sizes of the produced elements, in bytes.
    pub(super) produced: Vec<u64>,
    taken: usize,
    /// The ends of splits that the worker's half has not booked.
    marks: VecDeque<usize>,
    splits: u64,
    splits_seen: u64,
    is_over: bool,
    bound: u64,
    read: Vec<u64>,
    ended: bool,
}

impl World {
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulation counts from an arbitrary instant"
    )]
    fn new(bound: u64, unacknowledged_bytes: u64) -> Self {
        let limits = SendLimits {
            patience: PATIENCE,
            unacknowledged_bytes,
        };
        Self {
            now: Instant::now(),
            worker: SendHalf::new(TASK, limits),
            client: ReceiveHalf::new(TASK),
            grants: VecDeque::new(),
            packs: Vec::new(),
            messages: VecDeque::new(),
            produced: Vec::new(),
            taken: 0,
            marks: VecDeque::new(),
            splits: 0,
            splits_seen: 0,
            is_over: false,
            bound,
            read: Vec::new(),
            ended: false,
        }
    }

    /// Makes the world of one consumer of a coordinated read.
    pub(super) fn coordinated(bound: u64) -> Self {
        Self {
            client: ReceiveHalf::coordinated(TASK),
            ..Self::new(bound, u64::MAX)
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Grant => self.grant(),
            Step::Acknowledge => self.grants.push_back(self.client.acknowledge()),
            Step::Send(most) => self.send(*most),
            Step::Deliver(which) => self.deliver(*which),
            Step::DeliverGrant => {
                if let Some(grant) = self.grants.pop_front() {
                    self.worker.handle_grant(&grant).unwrap();
                }
            }
            Step::Produce(elements, bytes) if !self.is_over => {
                self.produced.extend((0..*elements).map(|_| bytes));
            }
            Step::EndSplit if !self.is_over => {
                self.marks.push_back(self.produced.len());
                self.splits += 1;
            }
            Step::Produce(..) | Step::EndSplit => {}
            Step::End => self.is_over = true,
            Step::Wait => {
                self.now += PATIENCE;
                self.messages.extend(self.worker.handle_timeout(self.now));
            }
            Step::Cut => self.cut(),
            Step::Read => self.read(),
        }
        let outstanding = self.client.outstanding() + self.client.held();
        assert!(
            outstanding <= self.bound,
            "{outstanding} elements are outstanding, expected at most {}",
            self.bound
        );
        assert!(
            self.taken as u64 <= self.read.len() as u64 + self.bound,
            "more elements left the task than the reader granted"
        );
        self.worker.check_invariants();
        self.client.check_invariants();
    }

    fn grant(&mut self) {
        let free = self.bound - self.client.outstanding() - self.client.held();
        if free > 0 && !self.client.is_parked() && !self.client.is_ended() {
            let grant = self.client.grant(free, self.client.element_bytes().max(64));
            self.grants.push_back(grant);
        }
    }

    fn send(&mut self, most: u64) {
        for _ in 0..4 {
            match self.worker.poll_next() {
                Next::Tell(message) => self.messages.push_back(message),
                Next::Resend(pack) => self.packs.push(pack),
                Next::Nothing => return,
                Next::Fresh {
                    elements,
                    element_bytes,
                } => {
                    let ready = &self.produced[self.taken..];
                    let fitting = ready.iter().take_while(|bytes| **bytes <= element_bytes);
                    let count = fitting.count().min(elements.min(most) as usize);
                    if count > 0 {
                        let out = self.worker.spend(pack(self.taken as u64, &ready[..count]));
                        self.taken += count;
                        self.packs.push(out);
                    } else if let Some(bytes) = ready.first() {
                        let told = self.worker.starve(Shortage::NoCredit { bytes: *bytes }, self.now);
                        self.messages.extend(told);
                    } else if self.is_over && self.marks.is_empty() {
                        self.worker.handle_ending(Ending::Exhausted, 0);
                    } else {
                        assert!(self.worker.starve(Shortage::Empty, self.now).is_none());
                    }
                    while self.marks.front().is_some_and(|mark| *mark <= self.taken) {
                        self.marks.pop_front();
                        self.worker.handle_split_done(1, 0);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, which: prop::sample::Index) {
        // Messages are ordered among each other, but packs are not.
        let choices = self.packs.len() + usize::from(!self.messages.is_empty());
        if choices == 0 {
            return;
        }
        let choice = which.index(choices);
        if choice < self.packs.len() {
            let TaskPack { first, pack, .. } = self.packs.swap_remove(choice);
            let elements = pack.len() as u64;
            self.client
                .admit(first, elements, pack.region().len() as u64)
                .unwrap();
            self.client.handle_pack(first, elements, pack).unwrap();
        } else if let Some(message) = self.messages.pop_front() {
            self.client.handle(message).unwrap();
        }
    }

    fn cut(&mut self) {
        self.grants.clear();
        self.packs.clear();
        self.messages.clear();
        self.client.handle_link_lost();
        let subscribe = self.client.subscribe(Vec::new());
        self.worker
            .resume(subscribe.resume_from, subscribe.splits_from)
            .unwrap();
    }

    fn read(&mut self) {
        while let Some(arrival) = self.client.poll() {
            match arrival {
                Arrival::Pack { body, .. } => self.read.extend(numbers(&body)),
                Arrival::SplitDone { .. } => self.splits_seen += 1,
                Arrival::End => self.ended = true,
                Arrival::Failed(failure) => panic!("{failure}"),
            }
        }
    }

    /// Grants, sends, delivers and reads everything that is possible, without faults.
    pub(super) fn exchange(&mut self) {
        self.grant();
        if self.client.is_unacknowledged() {
            self.grants.push_back(self.client.acknowledge());
        }
        while let Some(grant) = self.grants.pop_front() {
            self.worker.handle_grant(&grant).unwrap();
        }
        self.send(u64::MAX);
        while !(self.packs.is_empty() && self.messages.is_empty()) {
            self.deliver(prop::sample::Index::arbitrary_first());
        }
        self.read();
    }

    /// Exchanges messages and packs without faults until the reader sees the end.
    fn run_out(&mut self) {
        self.is_over = true;
        for _ in 0..10_000 {
            self.exchange();
            if self.ended {
                return;
            }
        }
        panic!(
            "the reader never received the end of the task: {:?} {:?}",
            self.worker, self.client
        );
    }
}

trait First {
    fn arbitrary_first() -> Self;
}

impl First for prop::sample::Index {
    fn arbitrary_first() -> Self {
        use proptest::strategy::ValueTree;
        any::<prop::sample::Index>()
            .new_tree(&mut proptest::test_runner::TestRunner::deterministic())
            .unwrap()
            .current()
    }
}

proptest! {
    /// D2.4, D4.2, D4.3, D4.4, D5.1, D5.2, D5.4, D6.1, D6.2, D6.3, D6.5.
    #[test]
    fn every_element_arrives_once_in_order(
        bound in 1u64..40,
        kept in prop_oneof![Just(u64::MAX), 1u64..2000],
        steps in steps(),
    ) {
        let mut world = World::new(bound, kept);
        for step in &steps {
            world.step(step);
        }
        world.run_out();
        prop_assert_eq!(&world.read, &(0..world.produced.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(world.splits_seen, world.splits);
    }
}

/// D4.3, D4.4: the client stops granting when it receives the yield, and the worker has spent the credits of
/// a grant that crossed the yield.
#[test]
fn a_grant_that_crosses_a_yield_blocks_nobody() {
    for is_yield_heard_first in [true, false] {
        let mut world = World::new(4, u64::MAX);
        for step in [
            Step::Produce(1, 64),
            Step::Grant,
            Step::DeliverGrant,
            Step::Send(1),
            Step::Deliver(prop::sample::Index::arbitrary_first()),
            Step::Read,
            Step::Send(1),
            Step::Wait,
            Step::Grant,
            Step::DeliverGrant,
            Step::Produce(3, 64),
        ] {
            world.step(&step);
        }
        if is_yield_heard_first {
            let heard = world.messages.pop_front().expect("a yield");
            world.client.handle(heard).unwrap();
        }
        world.step(&Step::Send(1));
        world.step(&Step::Send(1));
        world.run_out();
        assert_eq!(world.read, [0, 1, 2, 3]);
    }
}

/// D6.4.
#[test]
fn what_was_acknowledged_cannot_be_asked_for_again() {
    let mut world = World::new(8, u64::MAX);
    for step in [
        Step::Produce(8, 64),
        Step::Grant,
        Step::DeliverGrant,
        Step::Send(8),
    ] {
        world.step(&step);
    }
    world.run_out();
    let acknowledge = world.client.acknowledge();
    world.worker.handle_grant(&acknowledge).unwrap();
    assert!(world.worker.resume(0, 0).is_err());
    assert!(world.worker.resume(9, 0).is_err());
    assert!(world.worker.resume(8, 0).is_ok());
}
