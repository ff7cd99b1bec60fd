//! Tests the promises of an arena: slots never overlap, offsets are correct, the budget holds, and memory is
//! returned.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_element::{
    AllocError, Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Pack, PackWriter, Pool, Slot,
    SlotAlloc, TensorBytes, TensorRef, TensorSpec,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::transport::shm::map::PAGE_BYTES;
use crate::transport::shm::{Arena, ArenaBudget, ArenaView, Mapping, OutOfArena, PageKind};

const MIB: usize = 1 << 20;

fn arena(size_bytes: usize) -> Arena {
    Arena::new(size_bytes, false, &ArenaBudget::new(usize::MAX, None)).unwrap()
}

fn view_of(arena: &Arena) -> ArenaView {
    ArenaView::new(Mapping::open(arena.fd(), arena.size_bytes() as u64).unwrap())
}

/// Returns the bytes of memory that the system holds for the file.
fn system_bytes(fd: impl AsFd) -> usize {
    rustix::fs::fstat(fd).unwrap().st_blocks as usize * 512
}

fn pages(size_bytes: usize) -> usize {
    size_bytes.div_ceil(PAGE_BYTES).max(1) * PAGE_BYTES
}

#[derive(Debug, Clone)]
enum Op {
    Alloc { from: usize, size_bytes: usize },
    Free { which: usize },
    Slice { which: usize, from: usize, len: usize },
    GiveBack,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0usize..3, 0usize..90_000).prop_map(|(from, size_bytes)| Op::Alloc { from, size_bytes }),
        3 => any::<usize>().prop_map(|which| Op::Free { which }),
        1 => any::<(usize, usize, usize)>().prop_map(|(which, from, len)| Op::Slice { which, from, len }),
        1 => Just(Op::GiveBack),
    ]
}

/// A slot in use, its origin (arena 0 or 1, or 2 for the pool), and the byte that was written to it.
struct Live {
    slot: Slot,
    from: usize,
    mark: u8,
    /// The size of the slot from which this slot was sliced, in bytes.
    size_bytes: usize,
}

/// Two arenas and a heap pool with one budget, and the slots in use.
struct World {
    pool: Pool,
    budget: ArenaBudget,
    arenas: [Arena; 2],
    views: [ArenaView; 2],
    live: Vec<Live>,
    marks: u8,
}

const LIMIT_BYTES: usize = 200 << 10;

impl World {
    fn new() -> Self {
        let pool = Pool::new(300 << 10);
        let budget = ArenaBudget::new(LIMIT_BYTES, Some(pool.clone()));
        let arenas = [160 << 10, 128 << 10].map(|bytes| Arena::new(bytes, false, &budget).unwrap());
        let views = [view_of(&arenas[0]), view_of(&arenas[1])];
        Self {
            pool,
            budget,
            arenas,
            views,
            live: Vec::new(),
            marks: 0,
        }
    }

    fn alloc(&mut self, from: usize, size_bytes: usize) {
        let alloc: &dyn SlotAlloc = if from < 2 { &self.arenas[from] } else { &self.pool };
        let mut slot = match alloc.alloc(size_bytes) {
            Ok(slot) => slot,
            Err(AllocError::Exhausted { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(slot.len(), size_bytes);
        self.marks = self.marks.wrapping_add(1);
        slot.fill(self.marks);
        self.live.push(Live {
            slot: slot.freeze(),
            from,
            mark: self.marks,
            size_bytes,
        });
    }

    fn slice(&mut self, which: usize, from: usize, len: usize) {
        let Some(index) = which.checked_rem(self.live.len()) else {
            return;
        };
        let live = &mut self.live[index];
        let from = from % (live.slot.len() + 1);
        let len = len % (live.slot.len() - from + 1);
        // The slice keeps the memory of the whole slot alive.
        live.slot = live.slot.slice(from..from + len);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Alloc { from, size_bytes } => self.alloc(from, size_bytes),
            Op::Free { which } if !self.live.is_empty() => {
                let live = self.live.swap_remove(which % self.live.len());
                drop(live);
            }
            Op::Free { .. } => {}
            Op::Slice { which, from, len } => self.slice(which, from, len),
            Op::GiveBack => self.budget.give_back(),
        }
    }

    fn check(&self) {
        let mut in_use = [0; 2];
        for live in &self.live {
            assert!(
                live.slot.iter().all(|byte| *byte == live.mark),
                "the write to another slot changed this slot"
            );
            for (index, arena) in self.arenas.iter().enumerate() {
                let offset = arena.offset_of(&live.slot);
                // An empty slice at the end of its arena has the address of the next mapping.
                let is_own = index == live.from && (offset.is_some() || !live.slot.is_empty());
                assert_eq!(offset.is_some(), is_own);
                let Some(offset) = offset.filter(|offset| offset.is_multiple_of(64)) else {
                    continue;
                };
                let len = live.slot.len() as u64;
                let seen = self.views[index].slot(offset, len, true, || {}).unwrap();
                assert_eq!(seen[..], live.slot[..]);
            }
            if live.from < 2 {
                in_use[live.from] += pages(live.size_bytes);
            }
        }
        let mut held = 0;
        for (arena, in_use) in self.arenas.iter().zip(in_use) {
            assert_eq!(arena.in_use_bytes(), in_use);
            assert!(arena.held_bytes() >= in_use);
            assert_eq!(arena.held_bytes(), system_bytes(arena.fd()));
            held += arena.held_bytes();
        }
        assert_eq!(self.budget.held_bytes(), held);
        let pool = self.pool.stats();
        assert!(held <= LIMIT_BYTES && pool.held_bytes <= pool.budget_bytes);
        assert!(pool.held_bytes >= held + pool.in_use_bytes);
    }
}

proptest! {
    #![proptest_config(rounds(128))]

    #[test]
    fn arenas_follow_a_naive_model(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
            world.check();
        }
        world.live.clear();
        world.check();
        world.budget.give_back();
        world.check();
        prop_assert_eq!(world.budget.held_bytes(), 0);
        let World { pool, budget, arenas, views, .. } = world;
        let kept = arenas[0].alloc(5000).unwrap().freeze();
        drop((arenas, views));
        prop_assert_eq!(budget.held_bytes(), 8192);
        drop(kept);
        prop_assert_eq!(budget.held_bytes(), 0);
        prop_assert!(pool.reserve(300 << 10));
    }
}

#[test]
fn never_fitting_differs_from_not_fitting_now() {
    let arena = arena(MIB);
    let error = arena.alloc(MIB + 1).unwrap_err();
    assert!(matches!(error, AllocError::TooLarge { limit_bytes, .. } if limit_bytes == MIB));
    let most = arena.alloc(MIB).unwrap();
    let full = AllocError::Exhausted {
        size_bytes: 1,
        in_use_bytes: MIB,
        budget_bytes: MIB,
    };
    assert_eq!(arena.alloc(1).unwrap_err(), full);
    drop(most);
    assert!(arena.alloc(1).is_ok());
    let poor = Arena::new(MIB, false, &ArenaBudget::new(10_000, None)).unwrap();
    assert!(matches!(poor.alloc(9000), Err(AllocError::TooLarge { limit_bytes, .. }) if limit_bytes == 8192));
}

#[test]
fn an_arenas_idle_memory_makes_room_elsewhere() {
    let budget = ArenaBudget::new(MIB, None);
    let [one, other] = [(); 2].map(|()| Arena::new(MIB, false, &budget).unwrap());
    drop(one.alloc(MIB).unwrap());
    assert_eq!((one.in_use_bytes(), one.held_bytes()), (0, MIB));
    let live = other.alloc(MIB / 2).unwrap();
    assert_eq!((one.held_bytes(), system_bytes(one.fd())), (0, 0));
    assert!(matches!(
        one.alloc(MIB),
        Err(AllocError::Exhausted { in_use_bytes, .. }) if in_use_bytes == MIB / 2
    ));
    drop(live);
    assert!(one.alloc(MIB).is_ok());
}

#[test]
fn memory_exists_before_writes_and_returns_unused() {
    let arena = arena(64 * MIB);
    assert_eq!(system_bytes(arena.fd()), 0);
    let large = arena.alloc(16 * MIB).unwrap();
    assert_eq!(system_bytes(arena.fd()), 16 * MIB);
    drop(large);
    let small = arena.alloc(PAGE_BYTES).unwrap();
    arena.give_back_if_idle();
    assert_eq!(
        system_bytes(arena.fd()),
        16 * MIB,
        "the memory was in use since the last call"
    );
    arena.give_back_if_idle();
    assert_eq!((system_bytes(arena.fd()), small.len()), (PAGE_BYTES, PAGE_BYTES));
}

#[test]
fn what_is_needed_again_and_again_stays() {
    let arena = arena(4 * MIB);
    for _ in 0..3 {
        drop(arena.alloc(MIB).unwrap());
        arena.give_back_if_idle();
        assert_eq!(arena.held_bytes(), MIB);
    }
}

#[test]
fn without_huge_pages_small_ones_serve() {
    let budget = ArenaBudget::new(4 * MIB, None);
    let too_many = Arena::new(8 * MIB, true, &budget).unwrap();
    let PageKind::SmallInstead { why } = too_many.kind() else {
        panic!("more than the budget: {:?}", too_many.kind());
    };
    assert!(
        why.contains("4194304") && budget.held_bytes() == 0,
        "{why}: {budget:?}"
    );
    let arena = Arena::new(3 * MIB, true, &budget).unwrap();
    match arena.kind() {
        PageKind::Huge => assert_eq!((arena.size_bytes(), budget.held_bytes()), (4 * MIB, 4 * MIB)),
        PageKind::SmallInstead { why } => assert!(why.contains("bytes of huge pages"), "{why}"),
        PageKind::Small => panic!("huge pages were requested"),
    }
    let slot = arena.alloc(MIB).unwrap().freeze();
    assert!(slot.iter().all(|byte| *byte == 0));
    drop((slot, arena));
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn arenas_of_impossible_sizes_are_refused() {
    for size_bytes in [0, usize::MAX, (1 << 40) + 1] {
        assert!(Arena::new(size_bytes, false, &ArenaBudget::new(1, None)).is_err());
    }
    assert_ne!(arena(1).id(), arena(1).id());
}

#[test]
fn a_views_slot_keeps_the_memory_mapped() {
    let arena = arena(MIB);
    let mut slot = arena.alloc(1000).unwrap();
    slot.fill(5);
    let slot = slot.freeze();
    let (offset, drops) = (arena.offset_of(&slot).unwrap(), Arc::new(AtomicUsize::new(0)));
    let view = view_of(&arena);
    let counter = drops.clone();
    let seen = view.slot(offset, 1000, true, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let seen = seen.unwrap();
    drop((view, slot, arena));
    let part = seen.slice(100..200);
    drop(seen);
    assert_eq!((part[..] == [5; 100], drops.load(Ordering::Relaxed)), (true, 0));
    let part = part.try_into_mut().unwrap_err();
    drop(part);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn ranges_outside_the_arena_are_refused() {
    let arena = arena(MIB);
    let (view, end) = (view_of(&arena), MIB as u64);
    for (offset_bytes, len_bytes) in [
        (end, 1),
        (end - 64, 65),
        (0, end + 1),
        (32, 64),
        (u64::MAX - 63, 64),
        (64, u64::MAX),
    ] {
        let refused = OutOfArena {
            offset_bytes,
            len_bytes,
            size_bytes: end,
        };
        let found = view.slot(offset_bytes, len_bytes, true, || panic!("no slot was handed out"));
        assert_eq!(found.map(|slot| slot.len()), Err(refused));
    }
    assert_eq!(view.slot(end - 64, 64, true, || {}).unwrap().len(), 64);
}

#[test]
fn parts_of_packs_are_found_where_they_lie() {
    let arena = arena(MIB);
    let layout = Layout::new(ElementSpec::tuple([TensorSpec::fixed(Dtype::U8, &[100])]).unwrap()).unwrap();
    let element_bytes = layout.element_bytes(&[], 0).unwrap();
    // The pack must not be located at the start of the arena.
    let _before = arena.alloc(3 * PAGE_BYTES).unwrap();
    let (mut writer, open) = PackWriter::open(&arena, 64 << 10, 64).unwrap();
    for sequence in 0..20 {
        let tensor = TensorRef {
            dtype: Dtype::U8,
            dims: &[100],
            data: TensorBytes::Raw(&[sequence as u8; 100]),
        };
        writer.push(&layout, &[tensor], sequence, &[]).unwrap();
    }
    let (whole, view) = (open.take(20, u64::MAX).unwrap(), view_of(&arena));
    let start = arena.offset_of(whole.region()).unwrap();
    assert_eq!(start, 3 * PAGE_BYTES as u64);
    let stride = element_bytes.next_multiple_of(64) as u64;
    for (first, count) in [(0, 20), (0, 1), (7, 5), (19, 1)] {
        let part = open.part(first, count, u64::MAX).unwrap();
        let offset = arena.offset_of(part.region()).unwrap();
        assert_eq!(offset, start + first as u64 * stride);
        let region = view
            .slot(offset, part.region().len() as u64, true, || {})
            .unwrap();
        let lens: Vec<u64> = part.lens().collect();
        let pack = Pack::from_parts(region, &lens).unwrap();
        for (index, slot) in pack.slots().enumerate() {
            let element = Element::open(slot, &layout, Origin::Foreign).unwrap();
            let component = element.components().next().unwrap();
            assert_eq!(component.bytes(), [(first + index) as u8; 100]);
        }
    }
    assert_eq!(arena.offset_of(&HeapAlloc.alloc(10).unwrap().freeze()), None);
}

#[test]
fn threads_sharing_an_arena_share_no_slot() {
    let budget = ArenaBudget::new(MIB, None);
    let arena = Arena::new(2 * MIB, false, &budget).unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let (arena, budget) = (&arena, &budget);
            scope.spawn(move || {
                for round in 0..300usize {
                    let Ok(mut slot) = arena.alloc(1 + round * 977 % 200_000) else {
                        continue;
                    };
                    slot.fill(thread);
                    if round % 16 == 0 {
                        budget.give_back();
                    }
                    assert!(slot.iter().all(|byte| *byte == thread));
                }
            });
        }
    });
    assert_eq!(arena.in_use_bytes(), 0);
    assert_eq!(
        (arena.held_bytes(), budget.held_bytes()),
        (system_bytes(arena.fd()), arena.held_bytes())
    );
}
