//! Tests which memory a task's elements are written to, and what happens when memory is short.

use std::sync::Arc;

use millstream_element::{Pack, Pool, SlotAlloc};

use crate::TaskId;
use crate::worker::alloc::{Arenas, TaskAlloc};
use crate::worker::arena_config::ArenaConfig;
use crate::worker::buffer::{Take, TaskBuffer};
use crate::worker::buffer_limits::BufferLimits;
use crate::worker::mode::TaskMode;
use crate::worker::place::Role;
use crate::worker::producer::Producer;
use crate::worker::tests::buffers::{layout, write};

const MIB: usize = 1 << 20;

/// A task that shares at most `task_bytes`, on a worker with 4 MiB for all elements.
struct Bench {
    pool: Pool,
    arenas: Arc<Arenas>,
    alloc: Arc<TaskAlloc>,
}

fn bench(task_bytes: usize, all_bytes: usize) -> Bench {
    let pool = Pool::new(4 * MIB);
    let config = ArenaConfig {
        task_bytes,
        all_bytes,
        huge_pages: false,
        pool: Some(pool.clone()),
    };
    let arenas = Arc::new(Arenas::new(&config));
    let alloc = Arc::new(TaskAlloc::new(TaskId(1), Arc::new(pool.clone()), &arenas));
    Bench { pool, arenas, alloc }
}

fn task(bench: &Bench, mode: TaskMode) -> (Arc<TaskBuffer>, Producer) {
    let buffer = Arc::new(TaskBuffer::new(BufferLimits::default(), mode, &Arc::default()));
    let producer = Producer::new(buffer.clone(), bench.alloc.clone(), layout());
    (buffer, producer)
}

fn take(buffer: &TaskBuffer) -> Pack {
    let Take::Elements(pack) = buffer.take(0, 1, u64::MAX) else {
        panic!("no element")
    };
    pack
}

#[test]
fn the_first_local_reader_moves_elements_to_arenas() {
    let bench = bench(MIB, MIB);
    let (buffer, mut producer) = task(&bench, TaskMode::FirstCome);
    // The elements are large, so that each has a slot of its own.
    write(&mut producer, 0, 20_000);
    let before = take(&buffer);
    assert_eq!((bench.arenas.stats().held_bytes, before.len()), (0, 1));
    let arena = bench.alloc.arena().unwrap();
    assert_eq!(arena.offset_of(before.region()), None);
    write(&mut producer, 1, 20_000);
    let behind = take(&buffer);
    assert_eq!(arena.offset_of(behind.region()), Some(0));
    assert!(Arc::ptr_eq(&arena, &bench.alloc.arena().unwrap()));
    drop((buffer, producer, before, behind, bench.alloc));
    assert_eq!(arena.in_use_bytes(), 0);
    drop(arena);
    assert_eq!(bench.arenas.stats().held_bytes, 0);
    assert!(bench.pool.reserve(4 * MIB - bench.pool.stats().held_bytes));
}

#[test]
fn a_cached_tasks_window_lies_in_the_arena() {
    let bench = bench(2 * MIB, 2 * MIB);
    let arena = bench.alloc.arena().unwrap();
    let (buffer, mut producer) = task(&bench, TaskMode::Cached);
    let role = Role {
        consumer: None,
        trainer: Some("one"),
    };
    buffer.take_place(0, role);
    for index in 0..4 {
        write(&mut producer, index, 20_000);
        assert!(arena.offset_of(take(&buffer).region()).is_some());
    }
    assert!(
        arena.in_use_bytes() > 4 * 160_000,
        "the window must keep all elements that its trainers may want"
    );
    assert_eq!(
        (bench.pool.stats().in_use_bytes, bench.arenas.stats().fallbacks),
        (0, 0)
    );
    drop((buffer, producer));
    assert_eq!(arena.in_use_bytes(), 0);
}

#[test]
fn a_full_arena_overflows_to_the_workers_memory() {
    let bench = bench(MIB, MIB);
    let arena = bench.alloc.arena().unwrap();
    let kept = bench.alloc.alloc(MIB).unwrap().freeze();
    assert_eq!(arena.offset_of(&kept), Some(0));
    for fallbacks in 1..4 {
        let slot = bench.alloc.alloc(1000).unwrap().freeze();
        assert_eq!(arena.offset_of(&slot), None);
        assert_eq!(bench.arenas.stats().fallbacks, fallbacks);
    }
    // An allocation that exceeds the size of the arena uses the worker's memory too.
    drop(kept);
    assert!(bench.alloc.alloc(2 * MIB).is_ok());
    assert_eq!(bench.arenas.stats().fallbacks, 4);
    let slot = bench.alloc.alloc(1000).unwrap().freeze();
    assert_eq!(
        (arena.offset_of(&slot), bench.arenas.stats().fallbacks),
        (Some(0), 4)
    );
}

#[test]
fn arenas_make_room_for_the_workers_memory() {
    let bench = bench(3 * MIB, 3 * MIB);
    let arena = bench.alloc.arena().unwrap();
    drop(bench.alloc.alloc(3 * MIB).unwrap());
    assert_eq!(bench.arenas.stats().held_bytes, 3 * MIB as u64);
    // The allocation exceeds any slot of the arena, and the rest of the budget.
    let own = bench.alloc.alloc(4 * MIB).unwrap().freeze();
    assert_eq!(
        (arena.offset_of(&own), bench.arenas.stats().held_bytes),
        (None, 0)
    );
    let error = bench.alloc.alloc(1000).unwrap_err();
    assert!(error.to_string().contains("of the budget of 4194304"), "{error}");
    drop(own);
    let again = bench.alloc.alloc(1000).unwrap().freeze();
    assert!(arena.offset_of(&again).is_some());
}

#[test]
fn unshareable_elements_use_the_workers_memory() {
    for (task_bytes, all_bytes) in [(MIB, 0), (0, MIB), (usize::MAX, MIB)] {
        let bench = bench(task_bytes, all_bytes);
        assert!(bench.alloc.arena().is_none());
        assert!(bench.alloc.alloc(1000).is_ok());
        assert_eq!(
            bench.arenas.stats().fallbacks,
            0,
            "no reader needs a copy of the element"
        );
    }
}
