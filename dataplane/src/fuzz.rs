//! Fuzz targets of the data plane: frames, messages, and the state machines of both sides behind them.
//! CONTRIBUTING.md says how to search for new inputs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_element::{AllocError, HeapAlloc, Pack, SlotAlloc, SlotMut};
use minicbor::{Decode, Decoder, Encode};

use crate::proto::message::{self, TaskId, ToClient, ToWorker};
use crate::proto::receive::{ReceiveError, ReceiveHalf};
use crate::proto::send::{Next, SendHalf, SendLimits, Shortage};
use crate::transport::Admission;
use crate::transport::quic::frame::Assembler;

/// Random inputs beside the corpus, for each target of a test run.
const RANDOM_INPUTS: usize = 200;

/// Bytes that an honest reader admits at a time: few, so that a peer's lie shows up as memory.
const ADMITTED_BYTES_MAX: u64 = 1 << 20;

fn round_trip<M: for<'b> Decode<'b, ()> + Encode<()>>(bytes: &[u8]) {
    if let Ok(message) = message::decode::<M>(bytes) {
        let encoded = minicbor::to_vec(&message).unwrap();
        let again: M = minicbor::decode(&encoded).expect("what is encoded can be decoded");
        assert_eq!(minicbor::to_vec(&again).unwrap(), encoded);
    }
}

#[test]
fn messages() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            round_trip::<ToWorker>(bytes);
            round_trip::<ToClient>(bytes);
        });
}

/// A pack on its stream: the first byte says in how large chunks it arrives.
#[test]
fn quic_packs() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let Some((chunk, bytes)) = bytes.split_first() else {
                return;
            };
            let mut assembler = Assembler::new(Arc::new(Bounded));
            for chunk in bytes.chunks(usize::from(*chunk).max(1)) {
                if assembler.push(chunk).is_err() {
                    return;
                }
            }
            if let Ok(pack) = assembler.finish() {
                let elements = pack.elements;
                assert!(pack.body.region_bytes() <= ADMITTED_BYTES_MAX);
                if let Ok(pack) = pack.body.open(&HeapAlloc) {
                    assert_eq!(pack.len() as u64, elements);
                }
            }
        });
}

/// A worker that says anything to a reader.
#[test]
fn receiving() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let mut half = ReceiveHalf::new(TASK);
            let mut at = 0;
            while let Some(head) = bytes.get(at) {
                at += 1;
                match head >> 4 {
                    0 => drop(half.grant(u64::from(head & 15), 64)),
                    1 => {
                        half.handle_link_lost();
                    }
                    2 => while half.poll().is_some() {},
                    3 => drop(half.acknowledge()),
                    4 => {
                        let (first, elements) = (half.contiguous(), u64::from(head & 15));
                        if half.admit(first, elements, elements * 64).is_ok()
                            && half.handle_pack(first, elements, ()).is_err()
                        {
                            return;
                        }
                    }
                    _ => {
                        let mut decoder = Decoder::new(&bytes[at..]);
                        let Ok(message) = decoder.decode::<ToClient>() else {
                            return;
                        };
                        at += decoder.position();
                        if half.handle(message).is_err() {
                            return;
                        }
                    }
                }
                half.check_invariants();
            }
        });
}

/// A reader that says anything to a worker.
#[test]
fn sending() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let mut half = SendHalf::new(
                TASK,
                SendLimits {
                    patience: Duration::from_millis(10),
                    unacknowledged_bytes: 4096,
                },
            );
            let mut now = Instant::now();
            let mut decoder = Decoder::new(bytes);
            while let Ok(message) = decoder.decode::<ToWorker>() {
                match message {
                    ToWorker::Grant(grant) => {
                        if half.handle_grant(&grant).is_err() {
                            return;
                        }
                    }
                    ToWorker::Subscribe(subscribe) => {
                        if half.resume(subscribe.resume_from, subscribe.splits_from).is_err() {
                            return;
                        }
                    }
                    ToWorker::Hello(_) | ToWorker::Cancel(_) => now += Duration::from_millis(20),
                }
                for _ in 0..4 {
                    match half.poll_next() {
                        Next::Fresh { elements: 0, .. } => drop(half.starve(Shortage::Empty, now)),
                        Next::Fresh { element_bytes, .. } if element_bytes < ELEMENT_BYTES => {
                            let bytes = ELEMENT_BYTES;
                            drop(half.starve(Shortage::NoCredit { bytes }, now));
                        }
                        Next::Fresh { .. } => drop(half.spend(element())),
                        Next::Resend(_) | Next::Tell(_) => {}
                        Next::Nothing => break,
                    }
                }
                let _ = half.handle_timeout(now);
                half.check_invariants();
            }
        });
}

const TASK: TaskId = TaskId(7);

/// Bytes of the element that the worker has.
const ELEMENT_BYTES: u64 = 64;

fn element() -> Pack {
    let slot = HeapAlloc.alloc(ELEMENT_BYTES as usize).unwrap();
    Pack::from_parts(slot.freeze(), &[ELEMENT_BYTES]).unwrap()
}

/// Admits packs up to a size, as a reader with one credit would.
#[derive(Debug)]
struct Bounded;

impl Admission for Bounded {
    fn admit(&self, _: TaskId, _: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        if region_bytes > ADMITTED_BYTES_MAX {
            return Err(ReceiveError::Oversized {
                region_bytes,
                elements,
                element_bytes: ADMITTED_BYTES_MAX,
            });
        }
        Ok(())
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        self
    }
}

impl SlotAlloc for Bounded {
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        assert!(
            size_bytes as u64 <= 2 * ADMITTED_BYTES_MAX,
            "more than was admitted"
        );
        HeapAlloc.alloc(size_bytes)
    }
}
