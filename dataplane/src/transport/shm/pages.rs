//! Records which pages of an arena are in use, and which hold memory of the system.
//!
//! The module owns the numbers only. Nothing is recorded in the pages themselves, which other processes can
//! write.
//!
//! Used runs are handed out before runs that were never used, because a fresh page is expensive. A freed run
//! rests before it is used again. The reader's core still caches the lines of a run that it read last, and a
//! writer would have to fetch each line.
//!
//! Invariant: runs in use never overlap, and a page that is resident but not in use is idle.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use offset_allocator::{Allocation, Allocator};

/// Maximum number of runs of an arena in use at once. The maximum bounds the tables at about 1 MiB, which
/// takes half a millisecond to set up. Small elements share packs of 256 KiB, so the maximum allows some GiB.
const RUNS_MAX: u32 = 1 << 14;

/// The number of pages in use or at rest from which on a run is used again: 8 MiB. The number is a multiple
/// of a core's own cache, but below the shared cache. benches/README.md has the measurements.
const RESTING_PAGES: u32 = 2048;

/// The binary logarithm of the number of size classes for each power of two.
const STEP_BITS: u32 = 3;

/// The state of all pages of one arena.
pub(super) struct Pages {
    space: Allocator<u32>,
    /// The allocations of runs in use and at rest, by first page.
    live: HashMap<u32, Allocation<u32>>,
    /// The runs that are not in use, those at rest longest first.
    resting: VecDeque<Range<u32>>,
    resting_pages: u32,
    /// The number of pages in use and at rest from which on runs at rest are used again.
    rest_from_pages: u32,
    in_use: Bits,
    resident: Bits,
    in_use_pages: u32,
    resident_pages: u32,
    /// Maximum number of pages in use since [`Pages::restart_peak`].
    peak_pages: u32,
}

impl Pages {
    /// Makes the record of `pages` pages, none of them in use or resident.
    pub(super) fn new(pages: u32) -> Self {
        Self::resting_from(pages, RESTING_PAGES.min(pages / 4))
    }

    fn resting_from(pages: u32, rest_from_pages: u32) -> Self {
        Self {
            // The allocator needs a node for each run, and for each gap between two runs.
            space: Allocator::with_max_allocs(pages, 2 * RUNS_MAX.min(pages) + 2),
            live: HashMap::new(),
            resting: VecDeque::new(),
            resting_pages: 0,
            rest_from_pages,
            in_use: Bits::new(pages),
            resident: Bits::new(pages),
            in_use_pages: 0,
            resident_pages: 0,
            peak_pages: 0,
        }
    }

    /// Returns the length of the longest run that `pages` pages have room for.
    pub(super) fn longest(pages: u32) -> u32 {
        match pages.checked_ilog2() {
            Some(octave) if octave > STEP_BITS => pages >> (octave - STEP_BITS) << (octave - STEP_BITS),
            _ => pages,
        }
    }

    /// Allocates a run of `pages` pages, at least one. Returns `None` while no room is left.
    pub(super) fn alloc(&mut self, pages: u32) -> Option<Range<u32>> {
        let mut rested = None;
        if self.in_use_pages + self.resting_pages >= self.rest_from_pages {
            rested = self.wake_longest_resting();
        }
        let run = loop {
            match rested {
                Some(run) if run.len() == pages as usize => break run,
                Some(run) => self.release(&run),
                None => {}
            }
            match self.carve(pages) {
                Some(run) => break run,
                // Runs at rest count as room too.
                None => rested = Some(self.wake_longest_resting()?),
            }
        };
        self.in_use.set(run.clone(), true);
        self.in_use_pages += pages;
        self.peak_pages = self.peak_pages.max(self.in_use_pages);
        Some(run)
    }

    /// Frees a run that [`Pages::alloc`] returned. The pages of the run stay resident.
    pub(super) fn free(&mut self, run: Range<u32>) {
        debug_assert!(self.live.contains_key(&run.start), "{run:?} is not in use");
        self.in_use_pages -= run.len() as u32;
        self.in_use.set(run.clone(), false);
        self.resting_pages += run.len() as u32;
        self.resting.push_back(run);
        while self.resting_pages > self.rest_from_pages
            && let Some(run) = self.wake_longest_resting()
        {
            self.release(&run);
        }
    }

    fn wake_longest_resting(&mut self) -> Option<Range<u32>> {
        let run = self.resting.pop_front()?;
        self.resting_pages -= run.len() as u32;
        Some(run)
    }

    /// Allocates a run in the free room.
    fn carve(&mut self, pages: u32) -> Option<Range<u32>> {
        if self.live.len() >= RUNS_MAX as usize {
            return None;
        }
        let allocation = self.space.allocate(class_pages(pages))?;
        let run = allocation.offset..allocation.offset + pages;
        self.live.insert(run.start, allocation);
        Some(run)
    }

    /// Returns the room of an unused run to the allocator.
    fn release(&mut self, run: &Range<u32>) {
        if let Some(allocation) = self.live.remove(&run.start) {
            self.space.free(allocation);
        }
    }

    /// Returns the number of pages of a run that hold no memory yet.
    pub(super) fn absent(&self, run: Range<u32>) -> u32 {
        run.len() as u32 - self.resident.count(run)
    }

    /// Records that all pages of a run in use hold memory.
    pub(super) fn note_resident(&mut self, run: Range<u32>) {
        self.resident_pages += self.absent(run.clone());
        self.resident.set(run, true);
    }

    /// Returns the first run of idle pages at or after page `from`, with at most `most` pages.
    pub(super) fn idle(&self, from: u32, most: u32) -> Option<Range<u32>> {
        let is_idle = |page: &u32| self.resident.has(*page) && !self.in_use.has(*page);
        let first = self
            .resident
            .next_set(from, |word, at| word & !self.in_use.word(at))?;
        let upto = (first..self.resident.len().min(first + most))
            .take_while(is_idle)
            .last();
        Some(first..upto.unwrap_or(first) + 1)
    }

    /// Records that the memory of an idle run returned to the system.
    pub(super) fn note_absent(&mut self, run: Range<u32>) {
        self.resident_pages -= self.resident.count(run.clone());
        self.resident.set(run, false);
    }

    /// Returns the number of pages in use.
    pub(super) fn in_use_pages(&self) -> u32 {
        self.in_use_pages
    }

    /// Returns the number of pages that hold memory.
    pub(super) fn resident_pages(&self) -> u32 {
        self.resident_pages
    }

    /// Returns the maximum number of pages in use since the last call, and restarts the count.
    pub(super) fn restart_peak(&mut self) -> u32 {
        std::mem::replace(&mut self.peak_pages, self.in_use_pages)
    }
}

/// Returns the number of pages that the allocator reserves for a run. The allocator finds freed room again by
/// its size class, and each power of two has eight classes. The excess pages are never touched, and cost only
/// addresses.
fn class_pages(pages: u32) -> u32 {
    match pages.checked_ilog2() {
        Some(octave) if octave > STEP_BITS => pages.next_multiple_of(1 << (octave - STEP_BITS)),
        _ => pages,
    }
}

/// A set of pages, one bit for each page.
struct Bits {
    words: Box<[u64]>,
    len: u32,
}

impl Bits {
    fn new(len: u32) -> Self {
        Self {
            words: vec![0; len.div_ceil(64) as usize].into(),
            len,
        }
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn has(&self, at: u32) -> bool {
        self.word(at / 64) >> (at % 64) & 1 == 1
    }

    fn word(&self, index: u32) -> u64 {
        self.words[index as usize]
    }

    fn set(&mut self, range: Range<u32>, value: bool) {
        for (index, mask) in masks(range) {
            let word = &mut self.words[index as usize];
            *word = if value { *word | mask } else { *word & !mask };
        }
    }

    fn count(&self, range: Range<u32>) -> u32 {
        masks(range)
            .map(|(index, mask)| (self.word(index) & mask).count_ones())
            .sum()
    }

    /// Returns the first bit at or after `from` that is set in its word after `filter` was applied to the
    /// word.
    fn next_set(&self, from: u32, filter: impl Fn(u64, u32) -> u64) -> Option<u32> {
        masks(from.min(self.len)..self.len).find_map(|(index, mask)| {
            let word = filter(self.word(index), index) & mask;
            (word != 0).then(|| 64 * index + word.trailing_zeros())
        })
    }
}

/// Returns the words that a range of bits touches, each with the mask of the range's bits.
fn masks(range: Range<u32>) -> impl Iterator<Item = (u32, u64)> {
    let words = if range.is_empty() {
        0..0
    } else {
        range.start / 64..range.end.div_ceil(64)
    };
    words.map(move |index| {
        let first = range.start.max(64 * index) - 64 * index;
        let count = range.end.min(64 * index + 64) - 64 * index - first;
        (index, (u64::MAX >> (64 - count)) << first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The state of one page in the naive model.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    struct Page {
        in_use: bool,
        resident: bool,
    }

    #[derive(Debug, Clone)]
    enum Op {
        Alloc { pages: u32, resides: bool },
        Free { which: usize },
        GiveBack { from: u32, most: u32 },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (1u32..90, any::<bool>()).prop_map(|(pages, resides)| Op::Alloc { pages, resides }),
            2 => any::<usize>().prop_map(|which| Op::Free { which }),
            1 => (0u32..300, 1u32..70).prop_map(|(from, most)| Op::GiveBack { from, most }),
        ]
    }

    fn check(pages: &Pages, model: &[Page]) {
        for (at, page) in model.iter().enumerate() {
            let found = Page {
                in_use: pages.in_use.has(at as u32),
                resident: pages.resident.has(at as u32),
            };
            assert_eq!(found, *page, "page {at}");
        }
        let count = |is: fn(&Page) -> bool| model.iter().filter(|page| is(page)).count() as u32;
        assert_eq!(pages.in_use_pages(), count(|page| page.in_use));
        assert_eq!(pages.resident_pages(), count(|page| page.resident));
    }

    fn apply(op: Op, pages: &mut Pages, model: &mut [Page], live: &mut Vec<Range<u32>>) {
        match op {
            Op::Alloc {
                pages: wanted,
                resides,
            } => {
                let Some(run) = pages.alloc(wanted) else { return };
                assert_eq!(run.len() as u32, wanted);
                for page in &mut model[run.start as usize..run.end as usize] {
                    assert!(!page.in_use, "{run:?} overlaps a run in use");
                    page.in_use = true;
                    page.resident |= resides;
                }
                if resides {
                    pages.note_resident(run.clone());
                }
                live.push(run);
            }
            Op::Free { which } if !live.is_empty() => {
                let run = live.swap_remove(which % live.len());
                for page in &mut model[run.start as usize..run.end as usize] {
                    page.in_use = false;
                }
                pages.free(run);
            }
            Op::Free { .. } => {}
            Op::GiveBack { from, most } => {
                let idle = |at: usize| model.get(at).is_some_and(|page| page.resident && !page.in_use);
                let first = (from as usize..model.len()).find(|at| idle(*at));
                let found = pages.idle(from, most);
                assert_eq!(
                    found.as_ref().map(|run| run.start as usize),
                    first,
                    "first idle page after {from}"
                );
                let Some(run) = found else { return };
                let (upto, longest) = (run.end as usize, run.len() as u32 == most);
                assert!((run.start as usize..upto).all(idle) && (longest || !idle(upto)));
                for page in &mut model[run.start as usize..upto] {
                    page.resident = false;
                }
                pages.note_absent(run);
            }
        }
    }

    proptest! {
        #[test]
        fn pages_follow_a_naive_model(
            size in 1u32..300,
            rest_from in 0u32..200,
            ops in prop::collection::vec(op(), 1..120),
        ) {
            let mut pages = Pages::resting_from(size, rest_from);
            let mut model = vec![Page::default(); size as usize];
            let mut live = Vec::new();
            for op in ops {
                apply(op, &mut pages, &mut model, &mut live);
                check(&pages, &model);
            }
            for run in live.drain(..) {
                pages.free(run);
            }
            let whole = Pages::longest(size);
            prop_assert_eq!(pages.alloc(whole).map(|run| run.len() as u32), Some(whole));
        }
    }

    #[test]
    fn the_longest_rested_pages_go_first() {
        let mut pages = Pages::resting_from(1 << 18, 8 * 257);
        // 257 pages are one page more than a power of two, like an element with its header.
        let runs: Vec<_> = (0..8).map(|_| pages.alloc(257).unwrap()).collect();
        pages.free(runs[1].clone());
        pages.free(runs[5].clone());
        pages.free(runs[3].clone());
        let again: Vec<_> = (0..3).map(|_| pages.alloc(257).unwrap()).collect();
        assert_eq!(again, [runs[1].clone(), runs[5].clone(), runs[3].clone()]);
        assert!(pages.alloc(257).unwrap().start > runs[7].start);
    }

    #[test]
    fn resting_pages_go_after_warm_ones() {
        let mut pages = Pages::resting_from(1 << 18, 0);
        let runs: Vec<_> = (0..8).map(|_| pages.alloc(257).unwrap()).collect();
        pages.free(runs[1].clone());
        pages.free(runs[5].clone());
        let mut again: Vec<_> = (0..2).map(|_| pages.alloc(257).unwrap().start).collect();
        again.sort_unstable();
        assert_eq!(again, [runs[1].start, runs[5].start]);
    }

    #[test]
    fn resting_pages_merge_into_any_run() {
        let mut pages = Pages::resting_from(64, 64);
        let runs: Vec<_> = (0..64).map(|_| pages.alloc(1).unwrap()).collect();
        runs.into_iter().for_each(|run| pages.free(run));
        assert_eq!(pages.alloc(64), Some(0..64));
    }

    #[test]
    fn exactly_as_many_runs_fit_as_allowed() {
        let mut pages = Pages::new(4 * RUNS_MAX);
        let runs: Vec<_> = (0..RUNS_MAX).map(|_| pages.alloc(1).unwrap()).collect();
        assert_eq!(pages.alloc(1), None);
        for run in runs.into_iter().step_by(2) {
            pages.free(run);
        }
        assert!(pages.alloc(1).is_some());
    }
}
