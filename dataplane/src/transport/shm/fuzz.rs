//! Fuzz targets of the data that another process can write: datagrams, rings, frames and leases.
//! CONTRIBUTING.md explains how to search for new inputs.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::datagram::Datagram;
use super::frame::{self, Frame};
use super::layout::{ControlLayout, RingPlace};
use super::returns::ReturnReceiver;
use super::ring::{RingReceiver, RingSender};
use crate::proto::message::{ToClient, ToWorker};

/// The number of random inputs of each target in a test run, in addition to the corpus.
const RANDOM_INPUTS: usize = 200;

const LAYOUT: ControlLayout = ControlLayout::new(64, 40, 8);
const PLACE: RingPlace = LAYOUT.down;

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[test]
fn datagrams() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            for fds in 0..3 {
                let Ok(datagram) = Datagram::from_bytes(bytes, fds) else {
                    continue;
                };
                assert_eq!(datagram.fds(), fds);
                if let Ok(encoded) = datagram.to_bytes() {
                    assert_eq!(Datagram::from_bytes(&encoded, fds).unwrap(), datagram);
                }
            }
        });
}

#[test]
fn frames() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let words = words_of(bytes);
            let _ = frame::read::<ToWorker>(&words);
            if let Ok(Frame::Pack(pack)) = frame::read::<ToClient>(&words) {
                let mut encoded = Vec::new();
                frame::write_pack(&pack, &mut encoded);
                match frame::read::<ToClient>(&encoded) {
                    Ok(Frame::Pack(again)) => assert_eq!(again, pack),
                    other => panic!("{other:?}"),
                }
            }
        });
}

/// Simulates a peer that overwrites words between two reads of the ring. Five bytes of input give the place
/// and the value.
#[test]
fn rings() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let words: Vec<AtomicU64> = (0..LAYOUT.words()).map(|_| AtomicU64::new(0)).collect();
            let mut receiver = RingReceiver::new(&words, PLACE);
            let mut sender = RingSender::new(&words, LAYOUT.up);
            let mut returns = ReturnReceiver::new(&words, LAYOUT.returns);
            let mut frame = Vec::new();
            for write in bytes.chunks_exact(5) {
                let at = usize::from(u16::from_le_bytes([write[0], write[1]])) % words.len();
                let value = u64::from(u16::from_le_bytes([write[2], write[3]]));
                // The last byte of the input rotates the value to other bits of the word.
                words[at].store(value.rotate_right(u32::from(write[4])), Relaxed);
                let Ok(found) = receiver.pop(&mut frame) else {
                    return;
                };
                assert!(!found || (1..=40).contains(&frame.len()));
                let _ = frame::read::<ToClient>(&frame);
                if sender.try_push(&[1, 2, 3]).is_err() {
                    return;
                }
                for _ in 0..LAYOUT.words() {
                    if returns.pop().is_none() {
                        break;
                    }
                }
            }
        });
}
