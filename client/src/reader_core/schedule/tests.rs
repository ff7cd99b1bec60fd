//! Tests of the schedule: against a model that goes through the rounds one by one, and among consumers whose
//! messages arrive late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_dataplane::TaskId;
use proptest::prelude::*;

use super::order::{OutOfStep, Schedule, Taking, Turn};

const TASKS: u64 = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A worker joins late. The task of the late worker has no start yet.
    Come,
    /// The worker of a task dies.
    Go(u64),
    /// A consumer receives its next message, or receives the last request again.
    Hear(usize),
    HearAgain(usize),
    /// Groups of a task reach a consumer, and the worker reports how many groups all consumers have.
    Arrive(usize, u64, u64),
    /// A consumer hands over groups that it may hand over, up to the given number.
    Hand(usize, usize),
}

#[derive(Debug, Clone)]
enum News {
    Added(TaskId, Option<u64>),
    Scheduled(TaskId, u64),
    Removed(TaskId),
    Concluded(TaskId, u64),
    CaughtUp,
}

/// The state of a task at the dispatcher and at its worker.
#[derive(Debug, Clone, Default)]
struct Book {
    start: Option<u64>,
    is_gone: bool,
    ready: BTreeMap<usize, u64>,
    released_at_removal: BTreeMap<usize, u64>,
    here: Vec<u64>,
}

#[derive(Debug, Default)]
struct Consumer {
    schedule: Schedule,
    news: VecDeque<News>,
    pending: Vec<TaskId>,
    starts_known: BTreeSet<TaskId>,
    /// Tasks whose worker sends nothing more, each with the number of groups that may be handed over.
    frozen: BTreeMap<TaskId, u64>,
    /// The number of groups that all consumers have, according to the latest message of the worker.
    released: BTreeMap<TaskId, u64>,
    handed: Vec<Turn>,
}

struct World {
    consumers: Vec<Consumer>,
    books: BTreeMap<TaskId, Book>,
}

impl World {
    /// Makes a world whose initial tasks take part from the first round on.
    fn new(count: usize, tasks: u64) -> Self {
        let mut world = Self {
            consumers: std::iter::repeat_with(Consumer::default).take(count).collect(),
            books: BTreeMap::new(),
        };
        (0..tasks).for_each(|_| world.come(Some(0)));
        world.tell(&News::CaughtUp);
        world
    }

    fn come(&mut self, start: Option<u64>) {
        let task = TaskId(self.books.len() as u64);
        let here = vec![0; self.consumers.len()];
        let book = Book {
            start,
            here,
            ..Book::default()
        };
        self.books.insert(task, book);
        self.tell(&News::Added(task, start));
    }

    fn tell(&mut self, news: &News) {
        for consumer in &mut self.consumers {
            consumer.news.push_back(news.clone());
        }
    }

    fn step(&mut self, step: &Step) {
        let count = self.consumers.len();
        match *step {
            Step::Come if self.books.len() < TASKS as usize => self.come(None),
            Step::Come => {}
            Step::Go(task) => {
                let task = TaskId(task);
                if let Some(book) = self.books.get_mut(&task).filter(|book| !book.is_gone) {
                    book.is_gone = true;
                    self.tell(&News::Removed(task));
                }
            }
            Step::Hear(consumer) => self.hear(consumer % count),
            Step::HearAgain(consumer) => {
                let consumer = consumer % count;
                if let Some(task) = self.consumers[consumer].pending.first().copied() {
                    self.added(consumer, task, None);
                }
            }
            Step::Arrive(consumer, task, groups) => {
                let consumer = consumer % count;
                // A consumer requests nothing from a worker before the start of its task is known.
                let knows = self.consumers[consumer].starts_known.contains(&TaskId(task));
                if let Some(book) = self
                    .books
                    .get_mut(&TaskId(task))
                    .filter(|book| knows && !book.is_gone)
                {
                    book.here[consumer] += groups;
                    let everywhere = book.here.iter().copied().min().unwrap_or_default();
                    // Only this consumer learns the new number of released groups.
                    self.consumers[consumer].released.insert(TaskId(task), everywhere);
                }
            }
            Step::Hand(consumer, most) => self.hand(consumer % count, most),
        }
    }

    fn added(&mut self, consumer: usize, task: TaskId, start: Option<u64>) {
        let answer = self.consumers[consumer].schedule.add(task, start).unwrap();
        let Some(earliest) = answer else { return };
        let count = self.consumers.len();
        let book = self.books.get_mut(&task).unwrap();
        assert_eq!(
            *book.ready.entry(consumer).or_insert(earliest),
            earliest,
            "the consumer reported another round than before"
        );
        if book.ready.len() == count && book.start.is_none() && !book.is_gone {
            let start = book.ready.values().copied().max().unwrap();
            book.start = Some(start);
            self.tell(&News::Scheduled(task, start));
        }
    }

    fn hear(&mut self, consumer: usize) {
        let Some(news) = self.consumers[consumer].news.pop_front() else {
            return;
        };
        let here = |books: &BTreeMap<TaskId, Book>, task| books[&task].here[consumer];
        match news {
            News::CaughtUp => self.consumers[consumer].schedule.open(),
            News::Added(task, start) => {
                let of = &mut self.consumers[consumer];
                if start.is_some() {
                    of.starts_known.insert(task);
                } else {
                    of.pending.push(task);
                }
                self.added(consumer, task, start);
            }
            News::Scheduled(task, start) => {
                let of = &mut self.consumers[consumer];
                of.pending.retain(|pending| *pending != task);
                if !of.frozen.contains_key(&task) {
                    of.starts_known.insert(task);
                }
                of.schedule.settle_start(task, start).unwrap();
            }
            News::Removed(task) => {
                let here = here(&self.books, task);
                let count = self.consumers.len();
                let of = &mut self.consumers[consumer];
                of.pending.retain(|pending| *pending != task);
                let released = of.released.get(&task).copied().unwrap_or_default();
                of.frozen.insert(task, released);
                of.schedule.freeze(task, here);
                let book = self.books.get_mut(&task).unwrap();
                book.released_at_removal.insert(consumer, released);
                if book.released_at_removal.len() == count {
                    let groups = book.released_at_removal.values().copied().max().unwrap();
                    self.tell(&News::Concluded(task, groups));
                }
            }
            News::Concluded(task, groups) => {
                let here = here(&self.books, task);
                let of = &mut self.consumers[consumer];
                of.frozen.insert(task, groups);
                of.schedule.conclude(task, groups, here).unwrap();
            }
        }
    }

    fn hand(&mut self, consumer: usize, most: usize) {
        let of = &mut self.consumers[consumer];
        for _ in 0..most {
            let Some(turn) = of.schedule.turn() else { return };
            let released = of.frozen.get(&turn.task).or_else(|| of.released.get(&turn.task));
            if turn.group >= released.copied().unwrap_or_default() {
                return;
            }
            of.schedule.advance();
            of.handed.push(turn);
        }
    }

    /// Delivers all messages and groups, and hands over every group that a consumer may hand over.
    fn run_out(&mut self) {
        for _ in 0..100 {
            for consumer in 0..self.consumers.len() {
                while !self.consumers[consumer].news.is_empty() {
                    self.hear(consumer);
                }
                for task in 0..TASKS {
                    self.step(&Step::Arrive(consumer, task, 1));
                }
                self.hand(consumer, usize::MAX);
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let consumer = 0usize..4;
    let step = prop_oneof![
        1 => Just(Step::Come),
        1 => (0..TASKS).prop_map(Step::Go),
        6 => consumer.clone().prop_map(Step::Hear),
        1 => consumer.clone().prop_map(Step::HearAgain),
        8 => (consumer.clone(), 0..TASKS, 1u64..4).prop_map(|(consumer, task, groups)| Step::Arrive(consumer, task, groups)),
        6 => (consumer, 1usize..9).prop_map(|(consumer, most)| Step::Hand(consumer, most)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// C9, D7.3, D7.6: however late messages arrive, all consumers hand over the same sequence, and no
    /// consumer is stuck.
    #[test]
    fn all_consumers_hand_over_the_same_sequence(count in 1usize..4, tasks in 1..=TASKS, steps in steps()) {
        let mut world = World::new(count, tasks);
        for step in &steps {
            world.step(step);
            let longest = world.consumers.iter().map(|consumer| &consumer.handed).max_by_key(|handed| handed.len());
            let longest = longest.cloned().unwrap_or_default();
            for consumer in &world.consumers {
                prop_assert!(longest.starts_with(&consumer.handed));
            }
        }
        world.run_out();
        let lives = world.books.values().any(|book| !book.is_gone);
        let before = world.consumers[0].handed.len();
        world.run_out();
        prop_assert!(!lives || world.consumers[0].handed.len() > before, "the consumers are stuck");
        // A group that has just reached the last consumer may not be released at the other consumers yet.
        let shortest = world.consumers.iter().map(|consumer| consumer.handed.len()).min().unwrap_or_default();
        for consumer in &world.consumers {
            prop_assert!(consumer.handed.len() <= shortest + TASKS as usize);
            prop_assert!(consumer.handed[..shortest] == world.consumers[0].handed[..shortest]);
        }
    }

    /// The model takes one turn after the other.
    #[test]
    fn the_window_holds_the_next_turns(
        tasks in prop::collection::vec((0u64..12, 0u64..6, prop::option::of(0u64..9)), 0..6),
        barrier in prop::option::of(0u64..12),
        turns in 0u64..40,
    ) {
        let mut schedule = Schedule::default();
        schedule.open();
        if let Some(barrier) = barrier {
            schedule.pending.insert(TaskId(99), barrier);
        }
        for (index, (start, handed, left)) in tasks.iter().enumerate() {
            let task = TaskId(index as u64);
            let limit = left.map_or(u64::MAX, |left| handed + left);
            schedule.taking.insert(task, Taking { start: *start, handed: *handed, limit });
            if handed < &limit {
                schedule.turns.insert((start + handed, task));
            }
        }
        let window = schedule.window(turns);
        prop_assert!(window.iter().map(|(task, _)| task).eq(schedule.turns.iter().map(|(_, task)| task)));
        let mut model = BTreeMap::new();
        for _ in 0..turns {
            if schedule.turn().is_none() {
                break;
            }
            *model.entry(schedule.turn().unwrap().task).or_insert(0) += 1;
            schedule.advance();
        }
        let window: BTreeMap<TaskId, u64> = window.into_iter().filter(|(_, share)| *share > 0).collect();
        prop_assert_eq!(window, model);
    }
}

/// C9: a message that would put a consumer out of step is an error.
#[test]
fn past_starts_and_future_verdicts_are_refused() {
    let mut schedule = Schedule::default();
    schedule.add(TaskId(1), Some(0)).unwrap();
    assert_eq!(
        schedule.turn(),
        None,
        "further tasks may take part from the beginning"
    );
    schedule.open();
    schedule.advance();
    let (start, begun) = (0, 1);
    let late = OutOfStep::Late {
        task: TaskId(2),
        start,
        begun,
    };
    assert_eq!(schedule.add(TaskId(2), Some(start)), Err(late));
    assert_eq!(schedule.add(TaskId(3), None), Ok(Some(1)));
    assert!(schedule.settle_start(TaskId(3), 0).is_err());
    schedule.freeze(TaskId(1), 5);
    for groups in [0, 6] {
        let (here, handed) = (5, 1);
        let lacking = OutOfStep::Lacking {
            task: TaskId(1),
            groups,
            here,
            handed,
        };
        assert_eq!(schedule.conclude(TaskId(1), groups, here), Err(lacking));
    }
}

/// D7.5: a task may end without a group before its first round is known. The task then delays no round, even
/// if its first round becomes known in a round that this consumer has begun.
#[test]
fn a_task_without_groups_joins_no_round() {
    let mut schedule = Schedule::default();
    schedule.add(TaskId(1), Some(0)).unwrap();
    schedule.open();
    assert_eq!(schedule.add(TaskId(2), None), Ok(Some(0)));
    assert_eq!(schedule.turn(), None, "the first round is unknown");
    schedule.conclude(TaskId(2), 0, 0).unwrap();
    for round in 0..3 {
        assert_eq!(
            schedule.turn().map(|turn| (turn.task, turn.group)),
            Some((TaskId(1), round))
        );
        schedule.advance();
    }
    schedule.settle_start(TaskId(2), 1).unwrap();
    assert_eq!(schedule.add(TaskId(2), Some(1)), Ok(None));
    assert_eq!(schedule.turn().map(|turn| turn.task), Some(TaskId(1)));
}
