//! Tests the cross-trainer cache against a naive model, and with concurrent threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use millstream_element::{
    Dtype, ElementSpec, HeapAlloc, Layout, Pack, PackWriter, Shape, TensorSpec, WriteError,
};
use proptest::prelude::*;

use super::buffers::{WATCHDOG, layout, sequences};
use crate::proto::message::{Failure, RefusalCode};
use crate::proto::send::Ending;
use crate::worker::buffer::{Take, TaskBuffer};
use crate::worker::buffer_limits::BufferLimits;
use crate::worker::cache::{Cache, CacheLimits, CacheStats};
use crate::worker::mode::TaskMode;
use crate::worker::place::Role;
use crate::worker::producer::{ProduceError, Producer};
use crate::worker::queue::Found;
use crate::worker::window::{TRAINER_ID_BYTES_MAX, TRAINERS_MAX, Window};

/// The distance in bytes between two consecutive elements of one number each.
const STRIDE: u64 = 128;

/// A task that is read through the cache, and the thread that writes it.
struct Cached {
    cache: Arc<Cache>,
    buffer: Arc<TaskBuffer>,
    producing: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Cached {
    /// Makes a task whose cache keeps `kept` numbers. Once started, its producer counts from 0 until the task
    /// is dropped, or ends with `ending` before `upto`.
    fn counting(kept: u64, upto: u64, ending: Ending) -> Self {
        let (cache, buffer) = empty(kept * STRIDE);
        let mut producer = Producer::new(buffer.clone(), Arc::new(HeapAlloc), layout());
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let producing = std::thread::spawn(move || {
            for number in 0..upto {
                if producer.wait_room().is_err() {
                    return ended.store(true, Ordering::Relaxed);
                }
                count(&mut producer, number).expect("a number fits");
            }
            producer.finish(ending);
        });
        Self {
            cache,
            buffer,
            producing: Some(producing),
            is_over,
        }
    }

    fn endless(kept: u64) -> Self {
        Self::counting(kept, u64::MAX, Ending::Exhausted)
    }

    fn admit(&self, client: u64, trainer: &str) {
        self.buffer.take_place(client, of(Some(trainer)));
    }

    fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Takes the next number for a client, or returns the ending of the task.
    fn next(&self, client: u64) -> Result<u64, Ending> {
        let since = Instant::now();
        loop {
            match self.buffer.take(client, 1, u64::MAX) {
                Take::Elements(pack) => return Ok(numbers(&pack)[0]),
                Take::Ended(ending) => return Err(ending),
                Take::Empty | Take::NotYet(_) | Take::NoCredit { .. } => std::thread::yield_now(),
            }
            assert!(since.elapsed() < WATCHDOG, "nothing comes");
        }
    }

    fn take(&self, client: u64, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next(client).expect("a number")).collect()
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        self.buffer.stop();
        if let Some(producing) = self.producing.take()
            && producing.join().is_err()
        {
            assert!(std::thread::panicking(), "the producer panicked");
        }
    }
}

fn empty(task_bytes: u64) -> (Arc<Cache>, Arc<TaskBuffer>) {
    let cache = Arc::new(Cache::new(CacheLimits {
        task_bytes,
        all_bytes: u64::MAX,
    }));
    // The buffer has room for one more element, because the producer must be one element ahead.
    let limits = BufferLimits {
        elements: 1,
        bytes: 1,
    };
    let buffer = Arc::new(TaskBuffer::new(limits, TaskMode::Cached, &cache));
    (cache, buffer)
}

fn count(producer: &mut Producer, number: u64) -> Result<(), ProduceError<String>> {
    producer.write(|pack, layout| {
        let mut element = match pack.begin(layout, &[Shape::fixed(&[1])], 0) {
            Ok(element) => element,
            Err(WriteError::Full { needed_bytes, .. }) => return Err(ProduceError::Full { needed_bytes }),
            Err(error) => panic!("{error}"),
        };
        element.component_mut(0).fill(number as u8);
        element.finish(number, &[]).expect("as announced");
        Ok(())
    })
}

fn numbers(pack: &Pack) -> Vec<u64> {
    sequences(pack, &layout())
}

/// Returns the role of a client that reads as this trainer, or without a trainer.
fn of(trainer: Option<&str>) -> Role<'_> {
    Role {
        consumer: None,
        trainer,
    }
}

fn failed() -> Ending {
    Ending::Failed(Failure::new("data", "torn", "", ""))
}

#[derive(Debug, Clone)]
enum Step {
    Pack,
    Write {
        items: u64,
    },
    Admit {
        client: u64,
        trainer: usize,
    },
    Forget {
        client: u64,
    },
    Take {
        client: u64,
        elements: u64,
        element_bytes: u64,
    },
    Resize {
        capacity_bytes: u64,
    },
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![4 => Just(u64::MAX), 1 => 0u64..700];
    let step = prop_oneof![
        1 => Just(Step::Pack),
        6 => (1u64..60).prop_map(|items| Step::Write { items }),
        2 => (0u64..4, 0usize..3).prop_map(|(client, trainer)| Step::Admit { client, trainer }),
        1 => (0u64..4).prop_map(|client| Step::Forget { client }),
        6 => (0u64..4, 0u64..9, bytes)
            .prop_map(|(client, elements, element_bytes)| Step::Take { client, elements, element_bytes }),
        1 => (0u64..4000).prop_map(|capacity_bytes| Step::Resize { capacity_bytes }),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..160)
}

/// The naive model of the cache, which lists everything.
#[derive(Default)]
struct Model {
    /// The length in bytes and the number of the pack, for each element.
    written: Vec<(u64, usize)>,
    packs: usize,
    start: usize,
    end: usize,
    next: [usize; 3],
    trainer_of: BTreeMap<u64, usize>,
}

impl Model {
    fn kept_bytes(&self) -> u64 {
        self.written[self.start..self.end]
            .iter()
            .map(|(bytes, _)| bytes.next_multiple_of(64))
            .sum()
    }

    fn shrink_to(&mut self, capacity_bytes: u64) {
        while self.kept_bytes() > capacity_bytes {
            self.start += 1;
        }
    }

    /// Takes elements for a client. Returns the number of the first element, and their count.
    fn take(
        &mut self,
        client: u64,
        elements: u64,
        element_bytes: u64,
        capacity_bytes: u64,
    ) -> (usize, usize) {
        let Some(trainer) = self.trainer_of.get(&client) else {
            return (0, 0);
        };
        let from = self.next[*trainer].max(self.start);
        let pack = self.written.get(from).map(|(_, pack)| *pack);
        let given = self.written[from..].iter().take(elements as usize);
        let given = given.take_while(|(bytes, of)| *bytes <= element_bytes && Some(*of) == pack);
        let count = given.count();
        if count > 0 {
            self.next[*trainer] = from + count;
        }
        for upto in from..from + count {
            if upto >= self.end {
                self.end = upto + 1;
                self.shrink_to(capacity_bytes);
            }
        }
        (from, count)
    }
}

const TRAINERS: [&str; 3] = ["one", "two", "three"];

proptest! {
    /// D8.2, D8.3: each element has one address for all trainers, so it is never copied.
    #[test]
    fn a_window_gives_what_lists_would(steps in steps()) {
        let layout = layout();
        let element_bytes = |items: u64| layout.element_bytes(&[Shape::fixed(&[items])], 0).unwrap() as u64;
        let (mut window, mut model, mut capacity) = (Window::default(), Model::default(), 1500);
        let mut writer: Option<PackWriter> = None;
        let mut places = BTreeMap::new();
        for step in steps {
            match step {
                Step::Pack => {
                    let (fresh, open) = PackWriter::open(&HeapAlloc, 1 << 16, 1000).unwrap();
                    writer = Some(fresh);
                    window.push(open);
                    model.packs += 1;
                }
                Step::Write { items } => {
                    let Some(writer) = &mut writer else { continue };
                    let number = model.written.len() as u64;
                    writer.begin(&layout, &[Shape::fixed(&[items])], 0).unwrap().finish(number, &[]).unwrap();
                    model.written.push((element_bytes(items), model.packs));
                }
                Step::Admit { client, trainer } => {
                    window.admit(client, TRAINERS[trainer]);
                    model.trainer_of.insert(client, trainer);
                }
                Step::Forget { client } => {
                    window.forget(client);
                    model.trainer_of.remove(&client);
                }
                Step::Resize { capacity_bytes } => capacity = capacity_bytes,
                Step::Clear => {
                    window.clear();
                    model.shrink_to(0);
                }
                Step::Take { client, elements, element_bytes } => {
                    let had = model.end;
                    let found = window.take(client, elements, element_bytes, capacity);
                    let (from, count) = model.take(client, elements, element_bytes, capacity);
                    match found {
                        Found::Elements { pack, fresh_elements, fresh_bytes } => {
                            let expected: Vec<u64> = (from..from + count).map(|number| number as u64).collect();
                            prop_assert_eq!(numbers(&pack), expected);
                            let fresh = &model.written[had..model.end];
                            let bytes: u64 = fresh.iter().map(|(bytes, _)| bytes.next_multiple_of(64)).sum();
                            prop_assert_eq!((fresh_elements, fresh_bytes), (fresh.len() as u64, bytes));
                            for (number, slot) in (from..).zip(pack.slots()) {
                                let place = slot.as_ptr().addr();
                                prop_assert_eq!(*places.entry(number).or_insert(place), place, "the element was copied");
                            }
                        }
                        Found::NoCredit { bytes } => {
                            prop_assert_eq!((count, bytes), (0, model.written[from].0));
                        }
                        Found::Nothing => prop_assert_eq!((count, from), (0, model.written.len())),
                        Found::NoPlace => prop_assert!(!model.trainer_of.contains_key(&client)),
                    }
                }
            }
            prop_assert_eq!(window.kept_bytes(), model.kept_bytes());
            prop_assert_eq!(window.is_at_end(), model.end == model.written.len());
        }
    }
}

#[test]
fn trainers_get_the_same_elements_in_order() {
    let cached = Cached::endless(100);
    for (client, trainer) in [(0, "one"), (1, "two"), (2, "three")] {
        cached.admit(client, trainer);
        assert_eq!(cached.take(client, 50), (0..50).collect::<Vec<_>>(), "{trainer}");
    }
}

/// D8.2
#[test]
fn slow_trainers_skip_data() {
    let cached = Cached::endless(5);
    cached.admit(0, "fast");
    cached.admit(1, "slow");
    assert_eq!(cached.take(1, 1), [0]);
    cached.take(0, 20);
    assert_eq!(cached.take(1, 1), [15]);
    cached.take(0, 80);
    assert_eq!(cached.take(1, 5), [95, 96, 97, 98, 99]);
}

/// D8.2
#[test]
fn new_trainers_start_late() {
    let cached = Cached::endless(5);
    cached.admit(0, "first");
    cached.take(0, 100);
    cached.admit(1, "late");
    assert_eq!(cached.take(1, 6), [95, 96, 97, 98, 99, 100]);
}

/// D8.3
#[test]
fn alternating_trainers_extend_a_cache_of_one() {
    let cached = Cached::endless(1);
    cached.admit(0, "one");
    cached.admit(1, "two");
    for number in 0..50 {
        let (first, second) = if number % 2 == 0 { (0, 1) } else { (1, 0) };
        assert_eq!(cached.take(first, 1), [number]);
        assert_eq!(cached.take(second, 1), [number]);
    }
}

#[test]
fn who_is_first_misses_and_who_follows_hits() {
    let cached = Cached::endless(100);
    cached.admit(0, "one");
    cached.admit(1, "two");
    cached.take(0, 10);
    let stats = cached.stats();
    assert_eq!((stats.misses, stats.hits), (10, 0));
    cached.take(1, 10);
    let stats = cached.stats();
    assert_eq!((stats.misses, stats.hits), (10, 10));
}

#[test]
fn the_window_grows_to_its_limit() {
    let cached = Cached::endless(5);
    cached.admit(0, "one");
    for taken in 1..20 {
        cached.take(0, 1);
        assert_eq!(cached.stats().bytes, taken.min(5) * STRIDE);
    }
    cached.buffer.stop();
    assert_eq!(cached.stats().bytes, 0, "a stopped task must keep no element");
}

#[test]
fn concurrent_trainers_each_get_an_increasing_sequence() {
    let cached = Cached::endless(7);
    std::thread::scope(|scope| {
        for client in 0..10u64 {
            let cached = &cached;
            scope.spawn(move || {
                cached.admit(client, &format!("trainer {client}"));
                let taken = cached.take(client, 200);
                assert!(taken.is_sorted_by(|one, next| one < next), "{taken:?}");
            });
        }
    });
}

/// D8.2
#[test]
fn a_trainers_readers_get_each_element_once() {
    let cached = Cached::endless(7);
    let mut all = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..10u64)
            .map(|client| {
                let cached = &cached;
                scope.spawn(move || {
                    cached.admit(client, "one");
                    cached.take(client, 100)
                })
            })
            .collect();
        let taken = readers.into_iter().map(|reader| reader.join().expect("it reads"));
        taken.flatten().collect::<Vec<_>>()
    });
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}

/// D5.5
#[test]
fn a_stopped_task_delivers_without_an_end() {
    let cached = Cached::endless(5);
    cached.admit(0, "one");
    cached.take(0, 3);
    cached.buffer.stop();
    let since = Instant::now();
    while !cached.is_over.load(Ordering::Relaxed) {
        assert!(since.elapsed() < WATCHDOG, "the producer did not stop");
        std::thread::yield_now();
    }
    while let Take::Elements(_) = cached.buffer.take(0, 1, u64::MAX) {}
    assert!(matches!(cached.buffer.take(0, 1, u64::MAX), Take::Empty));
}

/// D8.4: a failure moves no trainer's place, and a trainer that is behind gets the kept elements first.
#[test]
fn a_failure_reaches_each_trainer_uncached() {
    let cached = Cached::counting(5, 8, failed());
    cached.admit(0, "fast");
    cached.admit(1, "slow");
    assert_eq!(cached.take(0, 8), (0..8).collect::<Vec<_>>());
    for _ in 0..3 {
        assert_eq!(cached.next(0), Err(failed()));
    }
    assert_eq!(cached.take(1, 5), [3, 4, 5, 6, 7]);
    assert_eq!(cached.next(1), Err(failed()));
    assert_eq!(cached.stats().bytes, 5 * STRIDE);
}

/// D8.4
#[test]
fn a_cached_end_says_what_is_required() {
    let cached = Cached::counting(5, 3, Ending::Exhausted);
    cached.admit(0, "one");
    cached.take(0, 3);
    let Err(Ending::Failed(failure)) = cached.next(0) else {
        panic!("the task did not fail")
    };
    assert!(
        failure.message.contains("requires an infinite dataset"),
        "{failure}"
    );
}

/// D8.4
#[test]
fn an_element_beyond_the_cache_is_an_error() {
    let spec = |dims: &[Option<u64>]| ElementSpec::single(TensorSpec::with_dims(Dtype::U64, dims)).unwrap();
    for dims in [[None], [Some(9)]] {
        let layout = Layout::new(spec(&dims)).unwrap();
        let (_, buffer) = empty(STRIDE - 1);
        let mut producer = Producer::new(buffer, Arc::new(HeapAlloc), layout);
        let error = count(&mut producer, 0).unwrap_err().to_string();
        assert!(error.contains(" 128 bytes") && error.contains(" 127 "), "{error}");
    }
}

/// D8.5
#[test]
fn cached_clients_hear_of_no_split_ends() {
    let (_, buffer) = empty(STRIDE);
    let mut producer = Producer::new(buffer.clone(), Arc::new(HeapAlloc), layout());
    buffer.take_place(0, of(Some("one")));
    for number in 0..3 {
        count(&mut producer, number).expect("a number fits");
        producer.split_done(number, 0);
        assert!(matches!(buffer.take(0, 1, u64::MAX), Take::Elements(_)));
    }
    assert_eq!(buffer.take_marks(0, usize::MAX), []);
}

/// D8.1
#[test]
fn trainers_are_named_only_with_a_cache() {
    let (_, cached) = empty(STRIDE);
    let plain = TaskBuffer::new(BufferLimits::default(), TaskMode::FirstCome, &Arc::default());
    let too_long = "x".repeat(TRAINER_ID_BYTES_MAX + 1);
    let longest = &too_long[1..];
    let refused = |buffer: &TaskBuffer, id| {
        buffer
            .check_place(0, of(id), true)
            .err()
            .map(|denied| denied.code)
    };
    let wrong = Some(RefusalCode::WrongReader);
    for id in ["one", longest] {
        assert_eq!(refused(&cached, Some(id)), None);
        assert_eq!(refused(&plain, Some(id)), wrong);
    }
    for id in [None, Some(""), Some(too_long.as_str())] {
        assert_eq!(refused(&cached, id), wrong, "{id:?}");
    }
    assert_eq!(refused(&plain, None), None);
}

/// D8.2
#[test]
fn the_longest_unused_trainer_is_forgotten() {
    let mut window = Window::default();
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 1 << 16, 10).unwrap();
    window.push(open);
    for number in 0..2 {
        let shape = [Shape::fixed(&[1])];
        writer
            .begin(&layout(), &shape, 0)
            .unwrap()
            .finish(number, &[])
            .unwrap();
    }
    let taken = |window: &mut Window, client| match window.take(client, 1, u64::MAX, u64::MAX) {
        Found::Elements { pack, .. } => numbers(&pack)[0],
        found @ (Found::NoCredit { .. } | Found::Nothing | Found::NoPlace) => panic!("{found:?}"),
    };
    // Trainer 0 stays. Each other trainer subscribes, reads and leaves.
    window.admit(0, "stays");
    assert_eq!(taken(&mut window, 0), 0);
    for trainer in 1..=TRAINERS_MAX {
        window.admit(1, &format!("trainer {trainer}"));
        assert_eq!(taken(&mut window, 1), 0);
        window.forget(1);
    }
    window.admit(1, "trainer 2");
    assert_eq!(taken(&mut window, 1), 1, "the trainer must be remembered");
    assert_eq!(
        taken(&mut window, 0),
        1,
        "a trainer with a client must be remembered"
    );
    window.admit(1, "trainer 1");
    assert_eq!(
        taken(&mut window, 1),
        0,
        "a forgotten trainer must begin at the oldest kept element"
    );
}
