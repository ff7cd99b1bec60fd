//! Tests a task that is read in coordination: which consumer gets which element, which groups are released,
//! and how the task ends.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::buffers::{layout, pair_in, sequences, wait_until_it_waits, write};
use crate::proto::message::RefusalCode;
use crate::proto::send::Ending;
use crate::worker::buffer::{Mark, Take, TaskBuffer};
use crate::worker::buffer_limits::BufferLimits;
use crate::worker::mode::TaskMode;
use crate::worker::place::Role;
use crate::worker::producer::Producer;

const UNBOUNDED: BufferLimits = BufferLimits {
    elements: u64::MAX,
    bytes: u64::MAX,
};

/// Makes a task with all its consumers. Consumer `i` is client `100 + i`.
fn coordinated(consumers: u32, limits: BufferLimits) -> (Arc<TaskBuffer>, Producer) {
    let mode = TaskMode::Coordinated {
        consumers: NonZeroU32::new(consumers).unwrap(),
    };
    let (buffer, producer) = pair_in(mode, limits);
    for consumer in 0..consumers {
        let client = 100 + u64::from(consumer);
        buffer.check_place(client, at(Some(consumer)), true).unwrap();
        buffer.take_place(client, at(Some(consumer)));
    }
    (buffer, producer)
}

fn take(buffer: &TaskBuffer, consumer: u64, elements: u64) -> Vec<u64> {
    match buffer.take(100 + consumer, elements, u64::MAX) {
        Take::Elements(pack) => sequences(&pack, &layout()),
        Take::Empty => Vec::new(),
        other @ (Take::NotYet(_) | Take::NoCredit { .. } | Take::Ended(_)) => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { items: u64 },
    Mark,
    Take { consumer: usize, elements: u64 },
    Acknowledge { consumer: usize, share: f64 },
    TakeMarks { consumer: usize, most: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let items = prop_oneof![8 => 1u64..50, 1 => 3000u64..9000, 1 => 30_000u64..40_000];
    let step = prop_oneof![
        6 => items.prop_map(|items| Step::Write { items }),
        1 => Just(Step::Mark),
        4 => (0usize..5, 1u64..12).prop_map(|(consumer, elements)| Step::Take { consumer, elements }),
        3 => (0usize..5, 0.0..1.5).prop_map(|(consumer, share)| Step::Acknowledge { consumer, share }),
        2 => (0usize..5, 0usize..3).prop_map(|(consumer, most)| Step::TakeMarks { consumer, most }),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    /// D5.2, D7.1, D7.3: the model is a list for each consumer.
    #[test]
    fn consumers_release_what_all_of_them_have(consumers in 1u32..6, steps in steps()) {
        let (buffer, mut producer) = coordinated(consumers, UNBOUNDED);
        let n = consumers as usize;
        let (mut lists, mut taken, mut has) = (vec![Vec::new(); n], vec![0; n], vec![0u64; n]);
        let (mut written, mut ended, mut told) = (0u64, Vec::new(), 0);
        for step in steps {
            match step {
                Step::Write { items } => {
                    write(&mut producer, written, items);
                    lists[written as usize % n].push(written);
                    written += 1;
                }
                Step::Mark => {
                    producer.split_done(ended.len() as u64, 0);
                    ended.push(written);
                }
                Step::Take { consumer, elements } => {
                    let consumer = consumer % n;
                    let got = take(&buffer, consumer as u64, elements);
                    let rest = &lists[consumer][taken[consumer]..];
                    prop_assert!(rest.starts_with(&got) && got.len() as u64 <= elements);
                    prop_assert!(!got.is_empty() || rest.is_empty());
                    taken[consumer] += got.len();
                }
                Step::Acknowledge { consumer, share } => {
                    let consumer = consumer % n;
                    has[consumer] = has[consumer].max(((taken[consumer] as f64 * share) as u64).min(taken[consumer] as u64));
                    buffer.acknowledge(100 + consumer as u64, has[consumer]);
                }
                Step::TakeMarks { consumer, most } => {
                    let consumer = consumer % n;
                    // Every element before the end of the split was sent to this consumer, or has arrived at
                    // another consumer.
                    let is_there = |k: u64| {
                        let (of, at) = (k as usize % n, k / n as u64);
                        if of == consumer { at < taken[of] as u64 } else { at < has[of] }
                    };
                    let is_due = |end: &&u64| (0..**end).all(is_there);
                    let due = ended[told..].iter().take(most).take_while(is_due).count();
                    let expected: Vec<Mark> = (told..told + due)
                        .map(|lease| Mark { position: ended[lease], lease: lease as u64, attempt: 0 })
                        .collect();
                    prop_assert_eq!(buffer.take_marks(100 + consumer as u64, most), expected);
                    told += due;
                }
            }
            prop_assert_eq!(buffer.released(), *has.iter().min().unwrap());
        }
    }

    /// D5.2, D7.5: every consumer receives the end after the ends of all splits, in whatever order the
    /// consumers take and acknowledge. The incomplete group is never released.
    #[test]
    fn every_consumer_receives_the_end(
        consumers in 1u32..6,
        written in 0u64..30,
        marks in prop::collection::vec(0u64..30, 0..6),
        order in prop::collection::vec((0u64..5, any::<bool>()), 0..60),
    ) {
        let (buffer, mut producer) = coordinated(consumers, UNBOUNDED);
        for index in 0..=written {
            for (lease, _) in marks.iter().enumerate().filter(|(_, mark)| **mark % (written + 1) == index) {
                producer.split_done(lease as u64, 0);
            }
            if index < written {
                write(&mut producer, index, 1);
            }
        }
        producer.finish(Ending::Exhausted);
        let n = u64::from(consumers);
        let (mut taken, mut told, mut ended) = (vec![0; n as usize], 0, vec![false; n as usize]);
        let in_turn = (0..4 * n).map(|step| (step, true));
        for (consumer, acknowledges) in order.into_iter().chain(in_turn) {
            let consumer = consumer % n;
            let place = consumer as usize;
            while let Take::Elements(pack) = buffer.take(100 + consumer, 3, u64::MAX) {
                taken[place] += pack.len() as u64;
            }
            if acknowledges {
                buffer.acknowledge(100 + consumer, taken[place]);
            }
            told += buffer.take_marks(100 + consumer, usize::MAX).len();
            ended[place] = match buffer.take(100 + consumer, 0, 0) {
                Take::Ended(ending) => {
                    prop_assert_eq!(ending, Ending::Exhausted);
                    prop_assert_eq!((buffer.released(), told), (written / n, marks.len()));
                    true
                }
                Take::Elements(_) | Take::Empty | Take::NotYet(_) | Take::NoCredit { .. } => {
                    prop_assert!(!ended[place], "the end was withdrawn");
                    false
                }
            };
        }
        prop_assert!(ended.iter().all(|ended| *ended), "a consumer did not receive the end");
    }

    /// A group is always written to its end, and no further group begins beyond the limit.
    #[test]
    fn production_stops_at_the_slowest_consumer(
        consumers in 1u32..6,
        bound in 1u64..20,
        takes in prop::collection::vec((0u64..5, 1u64..6), 0..60),
    ) {
        let (buffer, mut producer) = coordinated(consumers, BufferLimits { elements: bound, bytes: u64::MAX });
        let n = u64::from(consumers);
        let (mut written, mut taken) = (0, vec![0; n as usize]);
        for (consumer, elements) in takes {
            // The limit in bytes is not under test.
            while buffer.has_room(written, 1 << 40) {
                write(&mut producer, written, 1);
                written += 1;
            }
            prop_assert!(written.is_multiple_of(n), "a group is incomplete");
            let waiting = written - taken.iter().sum::<u64>();
            prop_assert!((bound..bound + n).contains(&waiting), "{waiting} wait");
            let consumer = consumer % n;
            taken[consumer as usize] += take(&buffer, consumer, elements).len() as u64;
        }
    }
}

/// Consumes this number of elements in parallel from an endless source.
fn consume_in_parallel(elements: u64, consumers: u32) {
    let (buffer, mut producer) = coordinated(consumers, BufferLimits::default());
    let n = u64::from(consumers);
    let is_over = Arc::new(AtomicBool::new(false));
    let producing = {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            for index in 0.. {
                if is_over.load(Ordering::Relaxed) || producer.wait_room().is_err() {
                    return;
                }
                write(&mut producer, index, 1);
            }
        })
    };
    let read = |consumer: u64| {
        let wanted = (elements + n - 1 - consumer) / n;
        let mut mine = Vec::new();
        while (mine.len() as u64) < wanted {
            mine.extend(take(&buffer, consumer, wanted - mine.len() as u64));
            std::thread::yield_now();
        }
        mine
    };
    let all: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..n)
            .map(|consumer| scope.spawn(move || read(consumer)))
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    is_over.store(true, Ordering::Relaxed);
    buffer.stop();
    producing.join().unwrap();
    for index in 0..elements {
        assert_eq!(all[(index % n) as usize][(index / n) as usize], index);
    }
}

/// D7.1: the cases are the rows ConsumeParallel of tf.data service's task_runner_test.
#[test]
fn groups_are_dealt_to_consumers_in_turn() {
    for (elements, consumers) in [(1000, 5), (1003, 5), (1000, 20), (4, 20), (0, 20)] {
        consume_in_parallel(elements, consumers);
    }
}

/// D7.5: consumers with an element of the incomplete group receive the end in the same step as consumers
/// without one.
#[test]
fn a_coordinated_end_follows_whole_groups() {
    let (buffer, mut producer) = coordinated(3, UNBOUNDED);
    for index in 0..7 {
        write(&mut producer, index, 1);
    }
    let ending = producer.finish(Ending::Exhausted);
    assert_eq!(ending, Ending::Exhausted);
    for consumer in 0..3 {
        while !take(&buffer, consumer, 9).is_empty() {}
    }
    for (consumer, received) in [(0, 3), (2, 2), (1, 2)] {
        assert!(matches!(buffer.take(100, 1, u64::MAX), Take::Empty));
        buffer.acknowledge(100 + consumer, received);
    }
    assert_eq!(buffer.released(), 2);
    for _again in 0..2 {
        for consumer in 0..3 {
            let Take::Ended(heard) = buffer.take(100 + consumer, 0, 0) else {
                panic!("consumer {consumer} did not receive the end")
            };
            assert_eq!(heard, ending);
        }
    }
}

/// D7.5: the ending does not wait for a consumer that never takes its element of the incomplete group.
#[test]
fn an_incomplete_group_delays_no_end() {
    let (buffer, mut producer) = coordinated(2, UNBOUNDED);
    for index in 0..3 {
        write(&mut producer, index, 1);
    }
    producer.split_done(0, 0);
    producer.finish(Ending::Exhausted);
    for consumer in 0..2 {
        assert_eq!(take(&buffer, consumer, 1).len(), 1);
        buffer.acknowledge(100 + consumer, 1);
    }
    assert_eq!(buffer.take_marks(101, 9).len(), 1);
    for consumer in [1, 0] {
        let ended = buffer.take(100 + consumer, 1, u64::MAX);
        assert!(matches!(ended, Take::Ended(Ending::Exhausted)), "{ended:?}");
    }
    assert!(buffer.is_drained());
}

/// D7.2.
#[test]
fn a_place_belongs_to_its_tickets_client() {
    let (buffer, mut producer) = coordinated(2, UNBOUNDED);
    write(&mut producer, 0, 1);
    let refusal = |client, consumer, is_new| {
        let denied = buffer.check_place(client, at(consumer), is_new).unwrap_err();
        (denied.code, denied.message)
    };
    for consumer in [None, Some(2), Some(u32::MAX)] {
        assert_eq!(refusal(7, consumer, true).0, RefusalCode::BadTicket);
    }
    let (code, message) = refusal(7, Some(1), true);
    assert_eq!(code, RefusalCode::CannotResume);
    assert!(
        message.contains("consumer 1") && message.contains("new iteration"),
        "{message}"
    );
    assert!(
        buffer.check_place(100, at(Some(0)), true).is_ok(),
        "a consumer without elements can begin again"
    );
    assert_eq!(take(&buffer, 0, 1), [0]);
    assert!(buffer.check_place(100, at(Some(0)), false).is_ok());
    assert_eq!(refusal(100, Some(0), true).0, RefusalCode::CannotResume);
    let (uncoordinated, _producer) = pair_in(TaskMode::FirstCome, UNBOUNDED);
    assert!(uncoordinated.check_place(7, at(Some(0)), true).is_err());
    assert!(uncoordinated.check_place(7, at(None), true).is_ok());
}

/// D4.5: the first credit of any consumer starts the task.
#[test]
fn any_consumers_first_credit_starts_the_task() {
    let (buffer, producer) = coordinated(3, UNBOUNDED);
    let waiting = std::thread::spawn(move || producer.wait_started().unwrap());
    wait_until_it_waits(&buffer, &waiting);
    assert!(take(&buffer, 0, 0).is_empty() && !buffer.is_started());
    assert!(take(&buffer, 2, 1).is_empty());
    waiting.join().unwrap();
}

/// Returns the role of a client that reads as this consumer, or without a consumer.
fn at(consumer: Option<u32>) -> Role<'static> {
    Role {
        consumer,
        trainer: None,
    }
}
