//! Tests the client's half against a worker that sends arbitrary messages. The client must return an error
//! for each false statement that cannot become true later.

use proptest::prelude::*;

use super::message::{
    Accepted, EndOfTask, Failure, Need, Released, SplitDone, TaskError, TaskId, ToClient, Yielded,
};
use super::receive::{Arrival, ReceiveError, ReceiveHalf};

const TASK: TaskId = TaskId(7);

#[derive(Debug, Clone)]
enum Step {
    /// The client grants this number of credits, each for an element of this number of bytes.
    Grant(u64, u64),
    /// The client's user reads all arrivals.
    Read,
    /// The link breaks.
    Cut,
    /// The worker announces a pack: the number of its first element, the number of elements, and the bytes of
    /// the region.
    Pack(u64, u64, u64),
    /// The worker sends a message.
    Say(ToClient),
}

/// Draws a number for a false statement: a plausible number, or a number at the end of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..24, 1 => any::<u64>(), 1 => u64::MAX - 3..=u64::MAX]
}

fn message() -> impl Strategy<Value = ToClient> {
    let task = TASK;
    prop_oneof![
        number().prop_map(move |total| ToClient::Yielded(Yielded { task, total })),
        (number(), number()).prop_map(move |(bytes, yielded)| ToClient::Need(Need { task, bytes, yielded })),
        number().prop_map(move |upto| ToClient::SplitDone(SplitDone {
            task,
            lease: 1,
            attempt: 0,
            upto
        })),
        number().prop_map(move |sent| ToClient::EndOfTask(EndOfTask { task, sent })),
        number().prop_map(move |sent| {
            let failure = Failure::new("data", "torn", "", "");
            ToClient::TaskError(TaskError { task, sent, failure })
        }),
        number().prop_map(move |groups| ToClient::Released(Released { task, groups })),
        number().prop_map(move |element_bytes| {
            ToClient::Accepted(Accepted {
                task,
                spec: Vec::new(),
                element_bytes,
            })
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1u64..9, 1u64..300).prop_map(|(credits, bytes)| Step::Grant(credits, bytes)),
        2 => Just(Step::Read),
        1 => Just(Step::Cut),
        6 => (number(), number(), number()).prop_map(|(first, elements, bytes)| Step::Pack(first, elements, 64 * (bytes / 64))),
        6 => (0u64..12, 1u64..4).prop_map(|(first, elements)| Step::Pack(first, elements, 64 * elements)),
        6 => message().prop_map(Step::Say),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// D2.3, D4.4, D5.4, D7.3: the client never panics and never admits more bytes than it granted. The
    /// client waits only for elements that can still arrive, and releases only groups that arrived.
    #[test]
    fn a_workers_word_is_checked_or_harmless(is_coordinated: bool, steps in steps()) {
        let mut half = if is_coordinated { ReceiveHalf::coordinated(TASK) } else { ReceiveHalf::new(TASK) };
        let (mut granted, mut worth_bytes, mut admitted_bytes) = (0u64, 0u64, 0u64);
        let mut has_ended = false;
        for step in steps {
            let outcome = match step {
                Step::Grant(credits, bytes) => {
                    granted += credits;
                    worth_bytes = worth_bytes.max(bytes.next_multiple_of(64));
                    prop_assert!(half.grant(credits, bytes).element_bytes <= worth_bytes);
                    Ok(0)
                }
                Step::Read => {
                    has_ended |= std::iter::from_fn(|| half.poll()).any(|arrival| is_end(&arrival));
                    prop_assert!(!has_ended || half.held() == 0, "the end arrived before elements that precede it");
                    Ok(0)
                }
                Step::Cut => Ok(half.handle_link_lost()),
                Step::Pack(first, elements, region_bytes) => {
                    let admitted = half.admit(first, elements, region_bytes);
                    let admitted = admitted.inspect(|()| admitted_bytes += region_bytes);
                    admitted.and_then(|()| half.handle_pack(first, elements, ())).map(|()| 0)
                }
                Step::Say(message) => half.handle(message),
            };
            prop_assert!(admitted_bytes <= granted * worth_bytes);
            prop_assert!(!is_coordinated || half.released() <= half.contiguous());
            half.check_invariants();
            if outcome.is_err() {
                // The client closes the link after an error.
                return Ok(());
            }
        }
        if half.is_ended() {
            let gap = |half: &ReceiveHalf<()>| half.contiguous();
            while half.admit(gap(&half), 1, 0).is_ok() {
                half.handle_pack(gap(&half), 1, ()).unwrap();
            }
            has_ended |= std::iter::from_fn(|| half.poll()).any(|arrival| is_end(&arrival));
            prop_assert!(has_ended, "the credits do not reach to the announced end");
        }
    }
}

fn is_end(arrival: &Arrival<()>) -> bool {
    matches!(arrival, Arrival::End | Arrival::Failed(_))
}

/// D2.3, D4.4: the size that the worker says it needs does not raise the size that the client granted.
#[test]
fn a_pack_is_checked_against_its_grant() {
    let mut half = ReceiveHalf::<()>::new(TASK);
    half.grant(10, 4096);
    for bytes in [1 << 28, u64::MAX] {
        let need = Need {
            task: TASK,
            bytes,
            yielded: 0,
        };
        half.handle(ToClient::Need(need)).unwrap();
        assert_eq!(half.element_bytes(), bytes);
        assert!(matches!(
            half.admit(0, 1, 1 << 28),
            Err(ReceiveError::Oversized {
                element_bytes: 4096,
                ..
            })
        ));
        assert_eq!(
            half.acknowledge().element_bytes,
            4096,
            "the client acknowledged a larger element size than it granted"
        );
    }
    half.admit(0, 1, 4096).unwrap();
    half.grant(1, 1 << 28);
    half.admit(1, 1, 1 << 28).unwrap();
}

/// D5.1, D5.4.
#[test]
fn an_end_respects_arrivals_and_credits() {
    let end = |sent| ToClient::EndOfTask(EndOfTask { task: TASK, sent });
    let granted = || {
        let mut half = ReceiveHalf::<()>::new(TASK);
        half.grant(8, 64);
        half.admit(2, 1, 64).unwrap();
        half.handle_pack(2, 1, ()).unwrap();
        half
    };
    for sent in [0, 2, 9] {
        assert_eq!(
            granted().handle(end(sent)),
            Err(ReceiveError::Contradiction { count: sent })
        );
    }
    let mut half = granted();
    half.handle(end(5)).unwrap();
    let all = Yielded { task: TASK, total: 7 };
    assert!(half.handle(ToClient::Yielded(all)).is_err());
    assert!(half.admit(5, 1, 64).is_err());
    half.admit(4, 1, 64).unwrap();
}

/// D5.4, D6.5.
#[test]
fn arrivals_are_acknowledged_even_without_grants() {
    let mut half = ReceiveHalf::<()>::new(TASK);
    half.grant(4, 4 << 20);
    assert!(!half.is_unacknowledged());
    half.admit(0, 1, 4 << 20).unwrap();
    half.handle_pack(0, 1, ()).unwrap();
    assert!(half.is_unacknowledged() && !half.owes_acknowledgement());
    half.admit(1, 1, 4 << 20).unwrap();
    half.handle_pack(1, 1, ()).unwrap();
    assert!(half.owes_acknowledgement());
    assert_eq!(half.acknowledge().received, 2);
    assert!(!half.is_unacknowledged() && !half.owes_acknowledgement());
}

/// D7.4.
#[test]
fn a_consumer_owes_an_acknowledgement_of_whatever_arrived() {
    let mut half = ReceiveHalf::<()>::coordinated(TASK);
    half.grant(2, 64);
    assert!(!half.owes_acknowledgement());
    half.admit(0, 1, 64).unwrap();
    half.handle_pack(0, 1, ()).unwrap();
    assert!(half.owes_acknowledgement());
    half.acknowledge();
    assert!(!half.owes_acknowledgement());
}

/// D5.1, D6.3: a worker that announces a split after the end cannot hide the end. The next link announces the
/// end again.
#[test]
fn a_split_after_the_end_hides_no_end() {
    let mut half = ReceiveHalf::<()>::new(TASK);
    half.grant(4, 64);
    half.handle(ToClient::EndOfTask(EndOfTask { task: TASK, sent: 3 }))
        .unwrap();
    let split = SplitDone {
        task: TASK,
        lease: 1,
        attempt: 0,
        upto: 3,
    };
    half.handle(ToClient::SplitDone(split)).unwrap();
    half.handle_link_lost();
    assert!(!half.is_ended(), "the elements before the end need credits");
    half.grant(3, 64);
    half.admit(0, 3, 192).unwrap();
    half.handle_pack(0, 3, ()).unwrap();
    half.handle(ToClient::EndOfTask(EndOfTask { task: TASK, sent: 3 }))
        .unwrap();
    let arrivals: Vec<Arrival<()>> = std::iter::from_fn(|| half.poll()).collect();
    assert_eq!(arrivals.last(), Some(&Arrival::End), "{arrivals:?}");
}
