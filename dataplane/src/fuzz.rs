//! Fuzz targets of the data plane: frames, messages, and the state machines of both sides. CONTRIBUTING.md
//! explains how to search for new inputs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_element::{AllocError, HeapAlloc, Pack, SlotAlloc, SlotMut};
use minicbor::{Decode, Decoder, Encode};

use crate::proto::message::{self, TaskId, ToClient, ToWorker};
use crate::proto::receive::{ReceiveError, ReceiveHalf};
use crate::proto::send::{Next, SendHalf, SendLimits, Shortage};
use crate::transport::Admission;
use crate::transport::quic::frame::Assembler;

/// The number of random inputs of each target in a test run, in addition to the corpus.
const RANDOM_INPUTS: usize = 200;

/// Maximum bytes that the reader of the test admits at a time. The limit is low, so that a peer's false
/// announcement shows up as excess memory.
const ADMITTED_BYTES_MAX: u64 = 1 << 20;

fn round_trip<M: for<'b> Decode<'b, ()> + Encode<()>>(bytes: &[u8]) {
    if let Ok(message) = message::decode::<M>(bytes) {
        let encoded = minicbor::to_vec(&message).unwrap();
        let again: M = minicbor::decode(&encoded).expect("an encoded message can be decoded");
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

/// Receives a pack on its stream. The first byte of the input is the size of the chunks in which the pack
/// arrives.
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
                let elements = pack.pack.len() as u64;
                assert!(pack.pack.region_bytes() <= ADMITTED_BYTES_MAX);
                if let Ok(pack) = pack.pack.open(&HeapAlloc) {
                    assert_eq!(pack.len() as u64, elements);
                }
            }
        });
}

/// Feeds arbitrary messages of a worker to the client's half.
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

/// Feeds arbitrary messages of a reader to the worker's half.
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

/// The bytes of the element that the worker sends.
const ELEMENT_BYTES: u64 = 64;

fn element() -> Pack {
    let slot = HeapAlloc.alloc(ELEMENT_BYTES as usize).unwrap();
    Pack::from_parts(slot.freeze(), &[ELEMENT_BYTES]).unwrap()
}

/// An admission that accepts packs up to a fixed size, like a reader with one credit.
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
            "the allocation exceeds the admitted bytes"
        );
        HeapAlloc.alloc(size_bytes)
    }
}
