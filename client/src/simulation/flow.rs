//! The computation of tasks: a small model of pipelines with all properties that matter to splits.
//!
//! The model covers splits with several elements or none, several sources, several passes, elements made from
//! several splits, and pipelines that stop early or fail. The splits come from the production code's split
//! feed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_control::agent::{FeedBooks, FeedDemand, FeedStep};
use millstream_control::{Split, TaskDef};
use millstream_testkit::Chance;

/// One element of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub(super) source: u64,
    pub(super) pass: u64,
    pub(super) index: u64,
    pub(super) number: u64,
}

/// Items that are sent as one element.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) items: Vec<Item>,
    /// The leases of the items' splits, with their attempt numbers.
    pub(super) leases: Vec<(u64, u32)>,
}

/// The way in which a dataset combines its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Reads one source this number of times.
    Repeat(u64),
    /// Reads the sources one after another.
    Concatenate,
    /// Combines one element of each source. Ends with the shortest source.
    Zip,
    /// Takes this number of elements of the only source in each task.
    Take(u64),
    /// Fills a window of this number of elements, and yields them in random order.
    Shuffle(usize),
    /// Batches this number of elements.
    Batch(usize),
}

/// The definition of a dataset.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    pub(super) shape: Shape,
    /// The number of splits of each source.
    pub(super) sources: Vec<u64>,
    /// One more than the largest number of elements in a split.
    pub(super) sizes: u64,
    /// The number of elements after which a task may fail; `None` if no task fails.
    pub(super) fails: Option<u64>,
}

/// The outcome of a task's next step.
#[derive(Debug)]
pub(super) enum Step {
    Row(Row),
    /// The task must request splits from the dispatcher.
    Ask {
        source: u32,
        repetition: u64,
        demand: FeedDemand,
    },
    /// The task must wait until the dispatcher has answered.
    Wait,
    End,
    Fail,
}

impl Dataset {
    /// Returns the number of elements of a split.
    pub(super) fn size(&self, source: u64, index: u64) -> u64 {
        (index * 31 + source * 17 + 5) % self.sizes
    }

    pub(super) fn passes(&self) -> u64 {
        match self.shape {
            Shape::Repeat(passes) => passes,
            Shape::Concatenate | Shape::Zip | Shape::Take(_) | Shape::Shuffle(_) | Shape::Batch(_) => 1,
        }
    }

    /// Returns whether every element of every split is read.
    pub(super) fn is_read_to_the_end(&self) -> bool {
        match self.shape {
            Shape::Repeat(_) | Shape::Concatenate | Shape::Shuffle(_) | Shape::Batch(_) => true,
            Shape::Zip | Shape::Take(_) => false,
        }
    }

    /// Returns all items of a split.
    pub(super) fn items(&self, source: u64, pass: u64, index: u64) -> impl Iterator<Item = Item> + use<> {
        (0..self.size(source, index)).map(move |number| Item {
            source,
            pass,
            index,
            number,
        })
    }

    /// Returns all items of the dataset.
    pub(super) fn everything(&self) -> impl Iterator<Item = Item> + '_ {
        let passes = self.passes();
        let splits = (0_u64..).zip(&self.sources).flat_map(move |(source, splits)| {
            (0..passes).flat_map(move |pass| (0..*splits).map(move |index| (source, pass, index)))
        });
        splits.flat_map(|(source, pass, index)| self.items(source, pass, index))
    }
}

/// The computation of one task.
#[derive(Debug)]
pub(super) struct Flow {
    dataset: Dataset,
    /// The remaining items of a task without splits; `None` if the task reads splits.
    whole: Option<VecDeque<Item>>,
    pub(super) books: FeedBooks,
    /// The current time, for the split feed.
    pub(super) now: Duration,
    /// True if the worker drains, so that it gets no more splits (C10.2).
    pub(super) is_draining: bool,
    /// True if the task ended early because its worker drains.
    pub(super) is_cut_short: bool,
    chance: Chance,
    /// Items that were read from each source and are not yet part of an element.
    ahead: Vec<VecDeque<(Item, u64, u32)>>,
    window: Vec<(Item, u64, u32)>,
    /// The number of items of each started split that are not yet part of an element, by lease.
    unfinished: BTreeMap<u64, (u64, u32)>,
    /// The splits that have ended since the caller last drained this list.
    pub(super) finished: Vec<(u64, u32)>,
    source: usize,
    pass: u64,
    rows: u64,
    fails_at: Option<u64>,
}

enum Read {
    Item((Item, u64, u32)),
    Over,
    Later(Step),
}

impl Flow {
    /// Makes the computation of a task that reads its splits or its share of the dataset.
    pub(super) fn new(dataset: &Dataset, def: &TaskDef, is_dynamic: bool, mut chance: Chance) -> Flow {
        let share =
            |place: &usize| def.worker_count == 0 || *place as u64 % def.worker_count == def.worker_index;
        let whole = (!is_dynamic).then(|| {
            let items = dataset.everything().enumerate();
            items
                .filter(|(place, _)| share(place))
                .map(|(_, item)| item)
                .collect()
        });
        Flow {
            dataset: dataset.clone(),
            whole,
            books: FeedBooks::default(),
            now: Duration::ZERO,
            is_draining: false,
            is_cut_short: false,
            ahead: vec![VecDeque::new(); dataset.sources.len()],
            window: Vec::new(),
            unfinished: BTreeMap::new(),
            finished: Vec::new(),
            source: 0,
            pass: 0,
            rows: 0,
            fails_at: dataset.fails.filter(|_| chance.percent(30)),
            chance,
        }
    }

    pub(super) fn step(&mut self) -> Step {
        if self.fails_at == Some(self.rows) {
            return Step::Fail;
        }
        let step = match &mut self.whole {
            Some(items) => items.pop_front().map_or(Step::End, |item| {
                Step::Row(Row {
                    items: vec![item],
                    leases: Vec::new(),
                })
            }),
            None => self.step_by_splits(),
        };
        self.rows += u64::from(matches!(step, Step::Row(_)));
        step
    }

    fn step_by_splits(&mut self) -> Step {
        match self.dataset.shape {
            Shape::Repeat(_) | Shape::Concatenate => match self.read_in_turn() {
                Read::Item(item) => self.row(vec![item]),
                Read::Over => Step::End,
                Read::Later(step) => step,
            },
            Shape::Take(most) if self.rows >= most => Step::End,
            Shape::Take(_) => match self.read(0, 0) {
                Read::Item(item) => self.row(vec![item]),
                Read::Over => Step::End,
                Read::Later(step) => step,
            },
            Shape::Zip => self.zip(),
            Shape::Shuffle(size) => self.gather(size, 1),
            Shape::Batch(size) => self.gather(size, size),
        }
    }

    /// Fills the window with `size` items, then makes an element of `count` of them.
    fn gather(&mut self, size: usize, count: usize) -> Step {
        while self.window.len() < size {
            match self.read(0, 0) {
                Read::Item(item) => self.window.push(item),
                Read::Over => break,
                Read::Later(step) => return step,
            }
        }
        let mut items = Vec::new();
        while items.len() < count && !self.window.is_empty() {
            let place = if count == 1 {
                self.chance.index(self.window.len())
            } else {
                0
            };
            items.push(self.window.remove(place));
        }
        if items.is_empty() {
            Step::End
        } else {
            self.row(items)
        }
    }

    fn zip(&mut self) -> Step {
        for source in 0..self.dataset.sources.len() {
            if self.ahead[source].is_empty() {
                match self.read_split(source, 0) {
                    Ok(()) => {}
                    Err(Read::Later(step)) => return step,
                    Err(Read::Item(_) | Read::Over) => return Step::End,
                }
            }
        }
        let items = self.ahead.iter_mut().filter_map(VecDeque::pop_front).collect();
        self.row(items)
    }

    fn read_in_turn(&mut self) -> Read {
        loop {
            match self.read(self.source, self.pass) {
                Read::Over if self.pass + 1 < self.dataset.passes() => self.pass += 1,
                Read::Over if self.source + 1 < self.dataset.sources.len() => self.source += 1,
                read @ (Read::Item(_) | Read::Over | Read::Later(_)) => return read,
            }
        }
    }

    fn read(&mut self, source: usize, pass: u64) -> Read {
        if self.ahead[source].is_empty()
            && let Err(read) = self.read_split(source, pass)
        {
            return read;
        }
        self.ahead[source].pop_front().map_or(Read::Over, Read::Item)
    }

    /// Reads splits until one of them has elements.
    fn read_split(&mut self, source: usize, pass: u64) -> Result<(), Read> {
        while self.ahead[source].is_empty() {
            if self.is_draining {
                self.is_cut_short = true;
                return Err(Read::Over);
            }
            let number = source as u32;
            match self.books.next(number, pass, self.now) {
                FeedStep::Split { split, ask_ahead } => {
                    self.begin(&split);
                    if let Some(demand) = ask_ahead {
                        // The request for more splits waits until the elements of this split were read.
                        let repetition = pass;
                        return Err(Read::Later(Step::Ask {
                            source: number,
                            repetition,
                            demand,
                        }));
                    }
                }
                FeedStep::End => return Err(Read::Over),
                FeedStep::Ask(demand) => {
                    let (source, repetition) = (number, pass);
                    return Err(Read::Later(Step::Ask {
                        source,
                        repetition,
                        demand,
                    }));
                }
                FeedStep::Wait => return Err(Read::Later(Step::Wait)),
            }
        }
        Ok(())
    }

    fn begin(&mut self, split: &Split) {
        let items: Vec<Item> = self
            .dataset
            .items(u64::from(split.source), split.repetition, split.index)
            .collect();
        if items.is_empty() {
            self.finished.push((split.lease, split.attempt));
            return;
        }
        self.unfinished
            .insert(split.lease, (items.len() as u64, split.attempt));
        let read = items.into_iter().map(|item| (item, split.lease, split.attempt));
        self.ahead[split.source as usize].extend(read);
    }

    /// Ends all started splits. Used only by a defect.
    pub(super) fn end_begun(&mut self) {
        let begun = std::mem::take(&mut self.unfinished).into_iter();
        self.finished
            .extend(begun.map(|(lease, (_, attempt))| (lease, attempt)));
    }

    fn row(&mut self, read: Vec<(Item, u64, u32)>) -> Step {
        let mut row = Row::default();
        for (item, lease, attempt) in read {
            row.items.push(item);
            if !row.leases.contains(&(lease, attempt)) {
                row.leases.push((lease, attempt));
            }
            if let Some((left, _)) = self.unfinished.get_mut(&lease) {
                *left -= 1;
                if *left == 0 {
                    self.unfinished.remove(&lease);
                    self.finished.push((lease, attempt));
                }
            }
        }
        Step::Row(row)
    }
}
