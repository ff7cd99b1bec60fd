//! Tests a task's buffer and its producer. The buffer stays within its limits and delivers every element once
//! and in order, to any clients at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Wake;
use std::time::Duration;

use millstream_element::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Pack, Pool, Shape, SlotAlloc, TensorSpec,
    WriteError,
};
use proptest::prelude::*;

use crate::proto::message::Failure;
use crate::proto::send::Ending;
use crate::worker::bell::Bell;
use crate::worker::buffer::{Mark, Take, TaskBuffer};
use crate::worker::buffer_limits::BufferLimits;
use crate::worker::clock;
use crate::worker::mode::TaskMode;
use crate::worker::place::Role;
use crate::worker::producer::{ProduceError, Producer};

pub(in crate::worker) const WATCHDOG: Duration = Duration::from_secs(60);

pub(in crate::worker) fn layout() -> Arc<Layout> {
    let spec = ElementSpec::single(TensorSpec::with_dims(Dtype::U64, &[None])).unwrap();
    Layout::new(spec).unwrap()
}

fn pair(limits: BufferLimits) -> (Arc<TaskBuffer>, Producer) {
    pair_in(TaskMode::FirstCome, limits)
}

pub(in crate::worker) fn pair_in(mode: TaskMode, limits: BufferLimits) -> (Arc<TaskBuffer>, Producer) {
    let buffer = Arc::new(TaskBuffer::new(limits, mode, &Arc::default()));
    let producer = Producer::new(buffer.clone(), Arc::new(HeapAlloc), layout());
    (buffer, producer)
}

/// Writes element `index`, which has `items` numbers.
pub(in crate::worker) fn write(producer: &mut Producer, index: u64, items: u64) {
    let written: Result<(), ProduceError<()>> = producer.write(|pack, layout| {
        let mut element = match pack.begin(layout, &[Shape::fixed(&[items])], 0) {
            Ok(element) => element,
            Err(WriteError::Full { needed_bytes, .. }) => return Err(ProduceError::Full { needed_bytes }),
            Err(error) => panic!("{error}"),
        };
        element.component_mut(0).fill(index as u8);
        element.finish(index, &[]).unwrap();
        Ok(())
    });
    written.unwrap();
}

pub(in crate::worker) fn sequences(pack: &Pack, layout: &Arc<Layout>) -> Vec<u64> {
    let open = |slot| Element::open(slot, layout, Origin::Ours).unwrap().sequence();
    pack.slots().map(open).collect()
}

fn take_all(buffer: &TaskBuffer) -> u64 {
    let mut taken = 0;
    while let Take::Elements(pack) = buffer.take(0, u64::MAX, u64::MAX) {
        taken += pack.len() as u64;
    }
    taken
}

/// Waits until the producer's thread waits.
pub(in crate::worker) fn wait_until_it_waits(buffer: &TaskBuffer, producing: &std::thread::JoinHandle<()>) {
    while !buffer.is_producer_waiting() {
        assert!(!producing.is_finished(), "the producer ended instead of waiting");
        std::thread::yield_now();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        items: u64,
    },
    Mark,
    Take {
        client: u64,
        elements: u64,
        element_bytes: u64,
    },
    Acknowledge {
        client: u64,
    },
    TakeMarks {
        client: u64,
        most: usize,
    },
    Forget {
        client: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let items = prop_oneof![8 => 1u64..50, 1 => 3000u64..9000, 1 => 30_000u64..40_000];
    let bytes = prop_oneof![3 => Just(u64::MAX), 1 => 0u64..600];
    let step = prop_oneof![
        5 => items.prop_map(|items| Step::Write { items }),
        1 => Just(Step::Mark),
        3 => (0u64..3, 0u64..12, bytes)
            .prop_map(|(client, elements, element_bytes)| Step::Take { client, elements, element_bytes }),
        2 => (0u64..3).prop_map(|client| Step::Acknowledge { client }),
        2 => (0u64..3, 0usize..3).prop_map(|(client, most)| Step::TakeMarks { client, most }),
        1 => (0u64..3).prop_map(|client| Step::Forget { client }),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    /// The model is a list of lengths and a list of owners. D4.4: no element larger than a credit pays for
    /// leaves the buffer. D5.2: no client is told the end of a split of which another client owes elements.
    #[test]
    fn a_buffer_gives_what_a_list_would(steps in steps()) {
        let (buffer, mut producer) = pair(BufferLimits { elements: u64::MAX, bytes: u64::MAX });
        let layout = layout();
        let (mut written, mut taken) = (0, 0);
        let (mut marks, mut marks_taken) = (Vec::new(), Vec::new());
        let mut sizes = Vec::new();
        let mut owners: Vec<Option<u64>> = Vec::new();
        let mut received = BTreeMap::<u64, u64>::new();
        for step in steps {
            match step {
                Step::Write { items } => {
                    write(&mut producer, written, items);
                    sizes.push(layout.element_bytes(&[Shape::fixed(&[items])], 0).unwrap() as u64);
                    written += 1;
                }
                Step::Mark => {
                    producer.split_done(marks.len() as u64, 0);
                    marks.push(Mark { position: written, lease: marks.len() as u64, attempt: 0 });
                }
                Step::Take { client, elements, element_bytes } => match buffer.take(client, elements, element_bytes) {
                    Take::Elements(pack) => {
                        prop_assert!(pack.len() as u64 <= elements);
                        prop_assert!(pack.lens().all(|len| len <= element_bytes));
                        let expected: Vec<u64> = (taken..taken + pack.len() as u64).collect();
                        prop_assert_eq!(sequences(&pack, &layout), expected);
                        taken += pack.len() as u64;
                        owners.resize(taken as usize, Some(client));
                        *received.entry(client).or_default() += pack.len() as u64;
                    }
                    Take::Empty => prop_assert_eq!(taken, written),
                    Take::NoCredit { bytes } => {
                        prop_assert_eq!(Some(&bytes), sizes.get(taken as usize));
                        prop_assert!(elements == 0 || bytes > element_bytes);
                    }
                    Take::NotYet(_) | Take::Ended(_) => prop_assert!(false, "no other client waits, and the task did not end"),
                },
                Step::Acknowledge { client } => {
                    buffer.acknowledge(client, received.get(&client).copied().unwrap_or_default());
                    owners.iter_mut().filter(|owner| **owner == Some(client)).for_each(|owner| *owner = None);
                }
                Step::Forget { client } => {
                    buffer.forget(client, true);
                    received.remove(&client);
                    owners.iter_mut().filter(|owner| **owner == Some(client)).for_each(|owner| *owner = None);
                }
                Step::TakeMarks { client, most } => {
                    let is_others = |owner: &Option<u64>| owner.is_some_and(|owner| owner != client);
                    let reach = owners.iter().position(is_others).map_or(taken, |at| at as u64);
                    let due = marks.iter().skip(marks_taken.len()).take_while(|mark: &&Mark| mark.position <= reach);
                    let due: Vec<Mark> = due.take(most).copied().collect();
                    prop_assert_eq!(buffer.take_marks(client, most), due.clone());
                    marks_taken.extend(due);
                }
            }
            prop_assert_eq!(buffer.taken_elements(), taken);
        }
        prop_assert!(!buffer.is_drained());
        producer.finish(Ending::Exhausted);
        prop_assert_eq!(take_all(&buffer), written - taken);
        for client in 0..3 {
            buffer.forget(client, true);
        }
        marks_taken.extend(buffer.take_marks(0, usize::MAX));
        prop_assert_eq!(marks_taken, marks);
        prop_assert!(matches!(buffer.take(0, 0, 0), Take::Ended(Ending::Exhausted)));
        prop_assert!(buffer.is_drained());
    }

    /// Room is the limit less the written elements that were not taken. All room becomes free again,
    /// including the gaps between elements.
    #[test]
    fn what_was_taken_is_room_again(items in prop::collection::vec(1u64..3000, 1..60), batch in 1u64..7) {
        let (buffer, mut producer) = pair(BufferLimits { elements: 1, bytes: 1 });
        let layout = layout();
        let (mut written, mut strides) = (0, 0);
        for round in 0..3 {
            for (index, items) in items.iter().enumerate() {
                write(&mut producer, round * 100 + index as u64, *items);
                let bytes = layout.element_bytes(&[Shape::fixed(&[*items])], 0).unwrap();
                written += 1;
                strides += bytes.next_multiple_of(64) as u64;
            }
            let mut left = items.len() as u64;
            while let Take::Elements(pack) = buffer.take(0, batch, u64::MAX) {
                left -= pack.len() as u64;
                // With a limit of one byte or one element, room exists only when the buffer is empty.
                prop_assert_eq!(buffer.has_room(written, strides), left == 0);
            }
            prop_assert_eq!(left, 0);
            prop_assert!(producer.wait_room().is_ok());
        }
    }
}

#[test]
fn several_takers_share_elements_within_the_bound() {
    const COUNT: u64 = 20_000;
    const BOUND: u64 = 64;
    let (buffer, mut producer) = pair(BufferLimits {
        elements: BOUND,
        bytes: 8192,
    });
    let takers: Vec<_> = (0..3)
        .map(|taker| {
            let buffer = buffer.clone();
            buffer.take_place(taker, Role::default());
            std::thread::spawn(move || {
                let (layout, mut mine, mut marks) = (layout(), Vec::new(), 0);
                loop {
                    match buffer.take(taker, 1 + taker * 5, u64::MAX) {
                        Take::Elements(pack) => {
                            mine.extend(sequences(&pack, &layout));
                            buffer.acknowledge(taker, mine.len() as u64);
                        }
                        Take::Ended(_) => return (mine, marks),
                        Take::Empty | Take::NotYet(_) | Take::NoCredit { .. } => std::thread::yield_now(),
                    }
                    marks += buffer.take_marks(taker, usize::MAX).len();
                }
            })
        })
        .collect();
    for index in 0..COUNT {
        producer.wait_room().unwrap();
        assert!(
            index - buffer.taken_elements().min(index) < BOUND,
            "the producer wrote beyond the limit"
        );
        write(&mut producer, index, 1 + index % 9);
        if index % 100 == 99 {
            producer.split_done(index, 0);
        }
    }
    producer.finish(Ending::Exhausted);
    let (mut all, mut marks) = (BTreeSet::new(), 0);
    for taker in takers {
        let (mine, met) = taker.join().unwrap();
        assert!(mine.is_sorted(), "a client took elements out of order");
        marks += met;
        for sequence in mine {
            assert!(all.insert(sequence), "element {sequence} was taken twice");
        }
    }
    assert_eq!((all.len() as u64, marks as u64), (COUNT, COUNT / 100));
}

#[test]
fn copyless_elements_wait_within_demand() {
    let fill = |limits, is_local: bool| {
        let (buffer, mut producer) = pair(limits);
        if is_local {
            buffer.note_local();
        }
        let mut written = 0;
        while producer.has_room() {
            write(&mut producer, written, 1);
            written += 1;
        }
        written
    };
    let narrow = BufferLimits {
        elements: 1000,
        bytes: 1,
    };
    assert_eq!((fill(narrow, false), fill(narrow, true)), (1, 4));
    let few = BufferLimits {
        elements: 3,
        ..narrow
    };
    assert_eq!((fill(few, false), fill(few, true)), (1, 3));
}

/// D5.5: after a stop, waiting elements can still be taken, and the task never ends, whatever its producer
/// does.
#[test]
fn stopping_wakes_a_waiting_producer() {
    for waits_for_room in [false, true] {
        let (buffer, mut producer) = pair(BufferLimits {
            elements: 1,
            bytes: 1,
        });
        write(&mut producer, 0, 1);
        let waiting = std::thread::spawn(move || {
            let stopped = if waits_for_room {
                producer.wait_room()
            } else {
                producer.wait_started()
            };
            assert!(stopped.is_err() && producer.is_stopped());
            write(&mut producer, 1, 1);
            producer.split_done(7, 0);
        });
        wait_until_it_waits(&buffer, &waiting);
        buffer.stop();
        waiting.join().unwrap();
        assert_eq!(take_all(&buffer), 2);
        assert_eq!(buffer.take_marks(0, usize::MAX), []);
        assert!(matches!(buffer.take(0, 1, u64::MAX), Take::Empty));
        assert!(!buffer.is_drained());
    }
}

/// A task that ended before the stop keeps its end.
#[test]
fn stopping_an_ended_task_leaves_its_end() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    write(&mut producer, 0, 1);
    producer.split_done(7, 0);
    producer.finish(Ending::Exhausted);
    buffer.stop();
    assert_eq!(take_all(&buffer), 1);
    assert_eq!(buffer.take_marks(0, usize::MAX).len(), 1);
    assert!(matches!(
        buffer.take(0, 1, u64::MAX),
        Take::Ended(Ending::Exhausted)
    ));
}

#[test]
fn a_producer_waits_for_exhausted_memory() {
    const COUNT: u64 = 500;
    let buffer = Arc::new(TaskBuffer::new(
        BufferLimits::default(),
        TaskMode::FirstCome,
        &Arc::default(),
    ));
    let pool = Arc::new(Pool::new(512 * 1024));
    let mut producer = Producer::new(buffer.clone(), pool, layout());
    let producing = std::thread::spawn(move || {
        for index in 0..COUNT {
            write(&mut producer, index, 1000);
        }
        producer.finish(Ending::Exhausted);
    });
    wait_until_it_waits(&buffer, &producing);
    assert_eq!(buffer.taken_elements(), 0);
    while buffer.taken_elements() < COUNT {
        take_all(&buffer);
    }
    producing.join().unwrap();
}

#[test]
fn stopping_wakes_a_producer_that_waits_for_memory() {
    let buffer = Arc::new(TaskBuffer::new(
        BufferLimits::default(),
        TaskMode::FirstCome,
        &Arc::default(),
    ));
    let pool = Arc::new(Pool::new(512 * 1024));
    // Another user of the pool holds all its memory.
    let held: Vec<_> = std::iter::from_fn(|| pool.alloc(256 * 1024).ok()).collect();
    let mut producer = Producer::new(buffer.clone(), pool, layout());
    let producing = std::thread::spawn(move || {
        let outcome = producer.write::<()>(|_, _| Ok(()));
        assert!(matches!(outcome, Err(ProduceError::Stopped(_))), "{outcome:?}");
    });
    wait_until_it_waits(&buffer, &producing);
    buffer.stop();
    producing.join().unwrap();
    drop(held);
}

/// D5.2, D5.3.
#[test]
fn an_end_waits_for_split_ends() {
    let failed = Ending::Failed(Failure::new("data", "torn", "", ""));
    for (ending, waits) in [(Ending::Exhausted, true), (failed, false)] {
        let (buffer, mut producer) = pair(BufferLimits::default());
        for index in 0..2 {
            write(&mut producer, index, 1);
            assert!(matches!(buffer.take(index, 1, u64::MAX), Take::Elements(_)));
        }
        producer.split_done(7, 0);
        producer.finish(ending);
        for client in 0..2 {
            assert!(buffer.take_marks(client, 1).is_empty());
            assert_eq!(matches!(buffer.take(client, 1, 1), Take::Empty), waits);
        }
        buffer.acknowledge(0, 1);
        assert_eq!(buffer.take_marks(1, 1).len(), 1);
        assert!(matches!(buffer.take(0, 1, 1), Take::Ended(_)));
    }
}

/// Counts how often a session is woken.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn split_ends_after_waiting_elements_wake_nobody() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    let (bell, wakes) = (Arc::new(Bell::new(clock::now())), Arc::<Wakes>::default());
    let count = || wakes.0.load(Ordering::Relaxed);
    buffer.add_bell(0, bell.clone());
    bell.register(&wakes.clone().into());
    write(&mut producer, 0, 1);
    producer.split_done(7, 0);
    assert_eq!(count(), 0);
    assert_eq!(take_all(&buffer), 1);
    assert_eq!(buffer.take_marks(0, 1).len(), 1);
    // Nobody would look for the end of a split without elements.
    producer.split_done(8, 0);
    assert_eq!(count(), 1);
    assert_eq!(buffer.take_marks(0, 1).len(), 1);
}

/// A pipeline that rejects every element produces ends of splits only.
#[test]
fn a_producer_waits_until_split_ends_are_told() {
    const ENDS: u64 = 10_000;
    let (buffer, producer) = pair(BufferLimits::default());
    let producing = std::thread::spawn(move || {
        for lease in 0..ENDS {
            producer.split_done(lease, 0);
        }
        producer.finish(Ending::Exhausted);
    });
    wait_until_it_waits(&buffer, &producing);
    let mut told = buffer.take_marks(0, 100).len() as u64;
    assert_eq!(told, 100);
    while told < ENDS {
        let marks = buffer.take_marks(0, usize::MAX);
        assert!(marks.len() <= 4096);
        told += marks.len() as u64;
    }
    producing.join().unwrap();
    assert!(matches!(buffer.take(0, 0, 0), Take::Ended(Ending::Exhausted)));
}

#[test]
fn a_vanished_producer_fails_after_its_elements() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    write(&mut producer, 0, 1);
    drop(producer);
    assert_eq!(take_all(&buffer), 1);
    let Take::Ended(Ending::Failed(failure)) = buffer.take(0, 1, u64::MAX) else {
        panic!("the task did not fail")
    };
    assert_eq!(failure.code, "internal");
}

/// D4.5.
#[test]
fn asking_without_a_credit_starts_nothing() {
    let (buffer, producer) = pair(BufferLimits::default());
    let (done, outcome) = mpsc::channel();
    let waiting = std::thread::spawn(move || done.send(producer.wait_started().is_ok()).unwrap());
    wait_until_it_waits(&buffer, &waiting);
    assert!(matches!(buffer.take(0, 0, u64::MAX), Take::Empty));
    assert!(!buffer.is_started());
    assert!(matches!(buffer.take(0, 1, 0), Take::Empty));
    assert!(outcome.recv_timeout(WATCHDOG).unwrap());
    waiting.join().unwrap();
}

#[test]
fn a_producer_without_clients_waits_for_one() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    let mut written = 0;
    let mut go_on = || {
        let could = producer.has_room();
        if could {
            write(&mut producer, written, 8);
            written += 1;
        }
        could
    };
    assert!(matches!(buffer.take(1, 1, 1 << 20), Take::Empty));
    assert!(go_on());
    buffer.forget(1, true);
    assert!(!go_on());
    // A client that asks without a credit does not count.
    let _ = buffer.take(2, 0, 0);
    assert!(!go_on());
    let _ = buffer.take(2, 1, 1 << 20);
    assert!(go_on());
    // A task that is drained ends, even if all its clients have left.
    buffer.begin();
    buffer.forget(2, true);
    assert!(go_on());
}

#[test]
fn an_end_can_be_asked_for_repeatedly() {
    for count in [0, 10] {
        let (buffer, mut producer) = pair(BufferLimits::default());
        for index in 0..count {
            write(&mut producer, index, 1);
        }
        producer.finish(Ending::Exhausted);
        for index in 0..count {
            let Take::Elements(pack) = buffer.take(0, 1, u64::MAX) else {
                panic!("expected element {index}, found none")
            };
            assert_eq!(sequences(&pack, &layout()), [index]);
        }
        for client in [0, 0, 1, 2, 0] {
            let taken = buffer.take(client, 1, u64::MAX);
            assert!(matches!(taken, Take::Ended(Ending::Exhausted)));
        }
    }
}

/// D4.7: the producer is slower than its clients, and one client always asks before the other.
#[test]
fn scarce_elements_are_shared_evenly() {
    const COUNT: u64 = 100;
    let (buffer, mut producer) = pair(BufferLimits::default());
    for client in [0, 1] {
        buffer.take_place(client, Role::default());
        assert!(matches!(buffer.take(client, 1000, u64::MAX), Take::Empty));
    }
    let mut had = [0; 2];
    for index in 0..COUNT {
        write(&mut producer, index, 1);
        for client in [0, 1] {
            if let Take::Elements(pack) = buffer.take(client, 1000, u64::MAX) {
                had[client as usize] += pack.len();
            }
        }
    }
    assert_eq!(had, [50, 50]);
}

/// D4.7: a client that does not take its turn holds the other up briefly, and is then passed over.
#[test]
fn an_absent_client_loses_its_turn() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    for client in [0, 1] {
        buffer.take_place(client, Role::default());
        assert!(matches!(buffer.take(client, 1000, u64::MAX), Take::Empty));
    }
    for index in 0..3 {
        write(&mut producer, index, 1);
    }
    let mut had = 0;
    while had < 3 {
        match buffer.take(0, 1000, u64::MAX) {
            Take::Elements(pack) => had += pack.len(),
            Take::NotYet(until) => {
                std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()))
            }
            other @ (Take::Empty | Take::NoCredit { .. } | Take::Ended(_)) => panic!("{other:?}"),
        }
    }
    write(&mut producer, 3, 1);
    assert!(matches!(buffer.take(0, 1000, u64::MAX), Take::Elements(_)));
}
