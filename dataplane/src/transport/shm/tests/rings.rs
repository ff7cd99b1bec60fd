//! Compares the ring with naive models, for honest sides and for a peer that writes anywhere (D10.2).

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use crate::transport::LinkLost;
use crate::transport::shm::layout::{ControlLayout, RingPlace};
use crate::transport::shm::ring::{RingError, RingReceiver, RingSender, Sleepers};

const CAPACITY: usize = 8;
const FRAME_MAX: usize = 5;
const LAYOUT: ControlLayout = ControlLayout::new(CAPACITY, FRAME_MAX, 2);
const PLACE: RingPlace = LAYOUT.up;

#[derive(Debug, Clone)]
enum Step {
    Push { header: Vec<u64>, table: Vec<u64> },
    Pop,
    Scribble { at: usize, value: u64 },
}

fn honest() -> impl Strategy<Value = Step> {
    let part = || prop::collection::vec(any::<u64>(), 0..4);
    let push = (part(), part()).prop_map(|(header, table)| Step::Push { header, table });
    prop_oneof![3 => push, 2 => Just(Step::Pop)]
}

fn hostile() -> impl Strategy<Value = Step> {
    let places = prop_oneof![
        Just(PLACE.tail),
        Just(PLACE.head),
        PLACE.first..PLACE.first + CAPACITY,
        PLACE.tail..PLACE.end(),
    ];
    let value = prop_oneof![3 => 0..40u64, 1 => u64::MAX - 10..=u64::MAX, 1 => any::<u64>()];
    let scribble = (places, value).prop_map(|(at, value)| Step::Scribble { at, value });
    prop_oneof![3 => honest(), 1 => scribble]
}

fn area() -> Vec<AtomicU64> {
    (0..LAYOUT.words()).map(|_| AtomicU64::new(0)).collect()
}

fn ends(words: &[AtomicU64]) -> (RingSender<&[AtomicU64]>, RingReceiver<&[AtomicU64]>) {
    (RingSender::new(words, PLACE), RingReceiver::new(words, PLACE))
}

/// A naive model of a receiver, which reads the words one at a time.
#[derive(Debug, Default)]
struct NaiveReceiver {
    head: u64,
    seen: u64,
}

impl NaiveReceiver {
    /// Returns a frame, `Some(None)` for an empty ring, or `None` for an invalid ring.
    fn pop(&mut self, words: &[AtomicU64]) -> Option<Option<Vec<u64>>> {
        if self.head == self.seen {
            let tail = words[PLACE.tail].load(Relaxed);
            if tail < self.seen || tail - self.head > CAPACITY as u64 {
                return None;
            }
            self.seen = tail;
        }
        if self.head == self.seen {
            return Some(None);
        }
        let at = |index: u64| words[PLACE.first + (index % CAPACITY as u64) as usize].load(Relaxed);
        let frame_words = at(self.head);
        let is_sound = (1..=FRAME_MAX as u64).contains(&frame_words);
        if !is_sound || self.head + 1 + frame_words > self.seen {
            return None;
        }
        let frame = (1..=frame_words).map(|word| at(self.head + word)).collect();
        self.head += 1 + frame_words;
        Some(Some(frame))
    }
}

proptest! {
    #[test]
    fn frames_arrive_whole_in_order(
        steps in prop::collection::vec(honest(), 1..300),
    ) {
        let words = area();
        let (mut sender, mut receiver) = ends(&words);
        let (mut model, mut used) = (VecDeque::new(), 0);
        let mut frame = Vec::new();
        for step in steps {
            match step {
                Step::Push { header, table } => {
                    let whole = [header.clone(), table.clone()].concat();
                    let is_sendable = (1..=FRAME_MAX).contains(&whole.len());
                    let fits = used + 1 + whole.len() <= CAPACITY;
                    prop_assert_eq!(sender.has_room(whole.len()).ok(), is_sendable.then_some(fits));
                    let pushed = sender.try_push_parts(&header, table.into_iter());
                    prop_assert_eq!(pushed.ok(), is_sendable.then_some(fits));
                    if is_sendable && fits {
                        used += 1 + whole.len();
                        model.push_back(whole);
                    }
                }
                Step::Pop => {
                    let expected = model.pop_front();
                    prop_assert_eq!(receiver.pop(&mut frame), Ok(expected.is_some()));
                    prop_assert_eq!(&frame, &expected.unwrap_or_default());
                    used -= if frame.is_empty() { 0 } else { 1 + frame.len() };
                }
                Step::Scribble { .. } => {}
            }
        }
    }

    #[test]
    fn a_wild_peer_sends_only_valid_frames(
        steps in prop::collection::vec(hostile(), 1..300),
    ) {
        let words = area();
        let (mut sender, mut receiver) = ends(&words);
        let mut naive = NaiveReceiver::default();
        let mut pushed_words = 0;
        let mut frame = Vec::new();
        for step in steps {
            match step {
                Step::Push { header, table } => {
                    let whole = [header.clone(), table.clone()].concat();
                    if sender.try_push_parts(&header, table.into_iter()) == Ok(true) {
                        let at = |index: usize| words[PLACE.first + index % CAPACITY].load(Relaxed);
                        prop_assert_eq!(at(pushed_words), whole.len() as u64);
                        let written: Vec<u64> = (1..=whole.len()).map(|word| at(pushed_words + word)).collect();
                        prop_assert_eq!(&written, &whole);
                        pushed_words += 1 + whole.len();
                        prop_assert_eq!(words[PLACE.tail].load(Relaxed), pushed_words as u64);
                    }
                }
                Step::Pop => {
                    let popped = receiver.pop(&mut frame).ok();
                    let expected = naive.pop(&words);
                    prop_assert_eq!(popped, expected.as_ref().map(Option::is_some));
                    prop_assert_eq!(&frame, &expected.flatten().unwrap_or_default());
                }
                Step::Scribble { at, value } => words[at].store(value, Relaxed),
            }
        }
    }
}

#[test]
fn a_receiver_names_its_senders_fault() {
    let cases: [(&str, u64, u64, RingError); 5] = [
        (
            "index too large",
            9,
            1,
            RingError::Beyond {
                ring: "up",
                now: 9,
                limit: 8,
            },
        ),
        (
            "absurd index",
            u64::MAX,
            1,
            RingError::Beyond {
                ring: "up",
                now: u64::MAX,
                limit: 8,
            },
        ),
        (
            "length of zero",
            2,
            0,
            RingError::Length {
                ring: "up",
                words: 0,
                available: 1,
                max: 5,
            },
        ),
        (
            "length beyond the written words",
            2,
            2,
            RingError::Length {
                ring: "up",
                words: 2,
                available: 1,
                max: 5,
            },
        ),
        (
            "length above the maximum",
            8,
            6,
            RingError::Length {
                ring: "up",
                words: 6,
                available: 7,
                max: 5,
            },
        ),
    ];
    for (name, tail, length, expected) in cases {
        let words = area();
        let (_, mut receiver) = ends(&words);
        words[PLACE.first].store(length, Relaxed);
        words[PLACE.tail].store(tail, Relaxed);
        assert_eq!(receiver.pop(&mut Vec::new()), Err(expected), "{name}");
        assert!(
            matches!(LinkLost::from(expected), LinkLost::Misbehaved(_)),
            "{name}"
        );
    }
}

#[test]
fn a_decreasing_index_is_an_error() {
    let words = area();
    let (mut sender, mut receiver) = ends(&words);
    let mut frame = Vec::new();
    assert_eq!(sender.try_push(&[1, 2, 3]), Ok(true));
    assert_eq!(receiver.pop(&mut frame), Ok(true));
    words[PLACE.tail].store(3, Relaxed);
    let back = |was, now| RingError::WentBack { ring: "up", was, now };
    assert_eq!(receiver.pop(&mut frame), Err(back(4, 3)));
    assert_eq!(receiver.prepare_wait(), Err(back(4, 3)));
    // The sender reads the receiver's index only when room is short.
    assert_eq!(sender.try_push(&[1, 2, 3, 4, 5]), Ok(true));
    words[PLACE.head].store(3, Relaxed);
    assert_eq!(sender.has_room(2), Err(back(4, 3)));
    assert_eq!(sender.prepare_wait(2), Err(back(4, 3)));
}

#[test]
fn receiving_what_was_never_sent_is_an_error() {
    let words = area();
    let (mut sender, _) = ends(&words);
    assert_eq!(sender.try_push(&[1, 2, 3, 4]), Ok(true));
    words[PLACE.head].store(6, Relaxed);
    let beyond = RingError::Beyond {
        ring: "up",
        now: 6,
        limit: 5,
    };
    assert_eq!(sender.try_push(&[1, 2, 3]), Err(beyond));
    assert!(
        beyond
            .to_string()
            .contains("the up ring: expected at most 5, found 6")
    );
}

#[test]
fn an_empty_or_oversized_frame_is_refused() {
    let words = area();
    let (mut sender, mut receiver) = ends(&words);
    for count in [0, FRAME_MAX + 1, CAPACITY * 2] {
        let error = sender.try_push(&vec![7; count]).expect_err("not sendable");
        assert_eq!(
            error,
            RingError::Unsendable {
                ring: "up",
                words: count,
                max: FRAME_MAX
            }
        );
        assert!(matches!(LinkLost::from(error), LinkLost::Resource(_)));
    }
    assert_eq!(receiver.pop(&mut Vec::new()), Ok(false));
}

#[test]
fn the_other_side_is_woken_only_when_asleep() {
    let words = area();
    let (mut sender, mut receiver) = ends(&words);
    let mut frame = Vec::new();
    assert_eq!(sender.try_push(&[1; FRAME_MAX]), Ok(true));
    assert!(!sender.needs_wake(), "the receiver does not sleep");
    assert_eq!(receiver.prepare_wait(), Ok(false), "the ring has a frame");
    assert!(!sender.needs_wake(), "the receiver found the frame");

    assert_eq!(sender.prepare_wait(2), Ok(true), "the ring has no room");
    assert_eq!(receiver.pop(&mut frame), Ok(true));
    assert!(receiver.needs_wake());
    assert!(!receiver.needs_wake(), "the sender was woken already");
    assert_eq!(sender.prepare_wait(2), Ok(false), "the ring has room");
    assert!(!receiver.needs_wake(), "the sender found the room");

    assert_eq!(receiver.prepare_wait(), Ok(true), "the ring has no frame");
    assert_eq!(receiver.pop(&mut frame), Ok(false));
    assert_eq!(sender.try_push(&[1]), Ok(true));
    assert!(!sender.needs_wake(), "the receiver is awake again");
}

#[test]
fn the_sender_learns_what_kind_sleeps() {
    let words = area();
    let (mut sender, mut receiver) = ends(&words);
    let mut frame = Vec::new();
    let nobody = Sleepers {
        task: false,
        thread: false,
    };
    for is_thread in [true, false] {
        let may_sleep = if is_thread {
            receiver.prepare_doze()
        } else {
            receiver.prepare_wait()
        };
        assert_eq!(may_sleep, Ok(true));
        assert_eq!(sender.try_push(&[1]), Ok(true));
        let expected = Sleepers {
            task: !is_thread,
            thread: is_thread,
        };
        assert_eq!(sender.sleepers(), expected);
        assert_eq!(sender.sleepers(), nobody, "the sleeper was woken already");
        assert_eq!(receiver.prepare_doze(), Ok(false), "a frame is there");
        assert_eq!(receiver.pop(&mut frame), Ok(true));
        assert_eq!(sender.sleepers(), nobody);
    }
    // Any value except 0 counts as a raised flag.
    words[PLACE.receiver_dozes].store(77, Relaxed);
    assert!(sender.sleepers().thread);
}
