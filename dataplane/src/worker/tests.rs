//! A task's buffer and its producer: bounded, in order, everything once, whoever takes and whenever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use millstream_element::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Pack, Shape, TensorSpec, WriteError,
};
use proptest::prelude::*;

use super::buffer::{BufferLimits, Mark, Take, TaskBuffer};
use super::producer::{ProduceError, Producer};
use crate::proto::send::Ending;

const WATCHDOG: Duration = Duration::from_secs(60);

fn layout() -> Arc<Layout> {
    let spec = ElementSpec::single(TensorSpec::with_dims(Dtype::U64, &[None])).unwrap();
    Layout::new(spec).unwrap()
}

fn pair(limits: BufferLimits) -> (Arc<TaskBuffer>, Producer) {
    let buffer = Arc::new(TaskBuffer::new(limits));
    let producer = Producer::new(buffer.clone(), Arc::new(HeapAlloc), layout());
    (buffer, producer)
}

/// Writes element `index`, of `items` numbers.
fn write(producer: &mut Producer, index: u64, items: u64) {
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

fn sequences(pack: &Pack, layout: &Arc<Layout>) -> Vec<u64> {
    let open = |slot| Element::open(slot, layout, Origin::Ours).unwrap().sequence();
    pack.slots().map(open).collect()
}

fn take_all(buffer: &TaskBuffer) -> u64 {
    let mut taken = 0;
    while let Take::Elements(pack) = buffer.take(u64::MAX, u64::MAX) {
        taken += pack.len() as u64;
    }
    taken
}

#[derive(Debug, Clone)]
enum Step {
    Write { items: u64 },
    Mark,
    Take { elements: u64, element_bytes: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let items = prop_oneof![8 => 1u64..50, 1 => 3000u64..9000, 1 => 30_000u64..40_000];
    let bytes = prop_oneof![3 => Just(u64::MAX), 1 => 0u64..600];
    let step = prop_oneof![
        5 => items.prop_map(|items| Step::Write { items }),
        1 => Just(Step::Mark),
        3 => (0u64..12, bytes).prop_map(|(elements, element_bytes)| Step::Take { elements, element_bytes }),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    /// The model is a list of lengths. D4.4: nothing larger than a credit is worth leaves.
    #[test]
    fn a_buffer_gives_what_a_list_would(steps in steps()) {
        let (buffer, mut producer) = pair(BufferLimits { elements: u64::MAX, bytes: u64::MAX });
        let layout = layout();
        let (mut written, mut taken) = (0, 0);
        let (mut marks, mut marks_taken) = (Vec::new(), Vec::new());
        let mut sizes = Vec::new();
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
                Step::Take { elements, element_bytes } => match buffer.take(elements, element_bytes) {
                    Take::Elements(pack) => {
                        prop_assert!(pack.len() as u64 <= elements);
                        prop_assert!(pack.lens().all(|len| len <= element_bytes));
                        let expected: Vec<u64> = (taken..taken + pack.len() as u64).collect();
                        prop_assert_eq!(sequences(&pack, &layout), expected);
                        taken += pack.len() as u64;
                    }
                    Take::Empty => prop_assert_eq!(taken, written),
                    Take::NoCredit { bytes } => {
                        prop_assert_eq!(Some(&bytes), sizes.get(taken as usize));
                        prop_assert!(elements == 0 || bytes > element_bytes);
                    }
                    Take::Ended(_) => prop_assert!(false, "it did not end"),
                },
            }
            marks_taken.extend(buffer.take_marks());
            let due: Vec<Mark> = marks.iter().filter(|mark| mark.position <= taken).copied().collect();
            prop_assert_eq!(&marks_taken, &due);
            prop_assert_eq!(buffer.taken_elements(), taken);
        }
        prop_assert!(!buffer.is_drained());
        producer.finish(Ending::Exhausted);
        prop_assert_eq!(take_all(&buffer), written - taken);
        marks_taken.extend(buffer.take_marks());
        prop_assert_eq!(marks_taken, marks);
        prop_assert!(matches!(buffer.take(0, 0), Take::Ended(Ending::Exhausted)));
        prop_assert!(buffer.is_drained());
    }

    /// Room is what was written less what was taken: it all comes back, gaps between elements included.
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
            while let Take::Elements(pack) = buffer.take(batch, u64::MAX) {
                left -= pack.len() as u64;
                // With one byte or one element allowed there is room only when nothing at all is left.
                prop_assert_eq!(buffer.has_room(written, strides), left == 0);
            }
            prop_assert_eq!(left, 0);
            prop_assert!(producer.wait_room().is_ok());
        }
    }
}

#[test]
fn several_takers_get_each_element_once_and_the_bound_holds() {
    const COUNT: u64 = 20_000;
    const BOUND: u64 = 64;
    let (buffer, mut producer) = pair(BufferLimits {
        elements: BOUND,
        bytes: 8192,
    });
    let takers: Vec<_> = (0..3)
        .map(|taker| {
            let buffer = buffer.clone();
            std::thread::spawn(move || {
                let (layout, mut mine, mut marks) = (layout(), Vec::new(), 0);
                loop {
                    match buffer.take(1 + taker * 5, u64::MAX) {
                        Take::Elements(pack) => mine.extend(sequences(&pack, &layout)),
                        Take::Ended(_) => return (mine, marks),
                        Take::Empty | Take::NoCredit { .. } => std::thread::yield_now(),
                    }
                    marks += buffer.take_marks().len();
                }
            })
        })
        .collect();
    for index in 0..COUNT {
        producer.wait_room().unwrap();
        assert!(
            index - buffer.taken_elements().min(index) < BOUND,
            "wrote beyond the bound"
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
        assert!(mine.is_sorted(), "a taker saw elements out of order");
        marks += met;
        for sequence in mine {
            assert!(all.insert(sequence), "element {sequence} was given twice");
        }
    }
    assert_eq!((all.len() as u64, marks as u64), (COUNT, COUNT / 100));
}

#[test]
fn stopping_wakes_a_producer_that_waits() {
    for waits_for_room in [false, true] {
        let (buffer, mut producer) = pair(BufferLimits {
            elements: 1,
            bytes: 1,
        });
        write(&mut producer, 0, 1);
        let (done, outcome) = mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let stopped = if waits_for_room {
                producer.wait_room()
            } else {
                producer.wait_started()
            };
            done.send((stopped, producer.is_stopped())).unwrap();
        });
        assert!(
            outcome.recv_timeout(Duration::from_millis(20)).is_err(),
            "there was nothing to go on for"
        );
        buffer.stop();
        let (stopped, is_stopped) = outcome.recv_timeout(WATCHDOG).unwrap();
        assert!(stopped.is_err() && is_stopped);
        waiting.join().unwrap();
        // What waits can still be taken, and then it ended.
        assert_eq!(take_all(&buffer), 1);
        assert!(matches!(buffer.take(1, u64::MAX), Take::Ended(Ending::Exhausted)));
    }
}

#[test]
fn a_producer_that_goes_away_is_a_failure_behind_what_it_wrote() {
    let (buffer, mut producer) = pair(BufferLimits::default());
    write(&mut producer, 0, 1);
    drop(producer);
    assert_eq!(take_all(&buffer), 1);
    let Take::Ended(Ending::Failed(failure)) = buffer.take(1, u64::MAX) else {
        panic!("it did not fail")
    };
    assert_eq!(failure.code, "internal");
}

/// D4.5.
#[test]
fn asking_without_a_credit_starts_nothing() {
    let (buffer, producer) = pair(BufferLimits::default());
    let (done, outcome) = mpsc::channel();
    let waiting = std::thread::spawn(move || done.send(producer.wait_started().is_ok()).unwrap());
    assert!(matches!(buffer.take(0, u64::MAX), Take::Empty));
    assert!(
        outcome.recv_timeout(Duration::from_millis(20)).is_err(),
        "started without a credit"
    );
    assert!(matches!(buffer.take(1, 0), Take::Empty));
    assert!(outcome.recv_timeout(WATCHDOG).unwrap());
    waiting.join().unwrap();
}
