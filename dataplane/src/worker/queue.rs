//! A queue of packs whose elements wait for clients. Knows no client.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_element::{OpenPack, Pack};

use crate::proto::send::strides_bytes;

/// Packs whose elements wait, in order. Only the last pack may still be written to.
pub(super) type Queue = VecDeque<Arc<OpenPack>>;

/// The answer to a client that asks for elements.
#[derive(Debug)]
pub(super) enum Found {
    /// Elements. The fresh ones, which no client had before, stand last; their bytes include the gaps after
    /// them.
    Elements {
        pack: Pack,
        fresh_elements: u64,
        fresh_bytes: u64,
    },
    /// The next element has this size, and the client has no credit that is worth as much.
    NoCredit { bytes: u64 },
    /// No element waits for the client.
    Nothing,
    /// The client has no place in the task.
    NoPlace,
}

/// Packs that are searched for ready elements, at most.
const PACKS_LOOKED_AT: usize = 64;

/// Counts the elements that wait in a queue, of whose packs `taken` elements were taken; at most those of
/// some packs.
pub(super) fn ready_in(queue: &Queue, taken: u64) -> u64 {
    let packs = queue.iter().take(PACKS_LOOKED_AT);
    let finished: u64 = packs.map(|pack| pack.finished() as u64).sum();
    finished.saturating_sub(taken)
}

/// Takes waiting elements from the front of a queue. `taken` counts the elements that were taken of the packs
/// in it.
pub(super) fn take_first(
    queue: &mut Queue,
    taken: &mut u64,
    elements: u64,
    element_bytes: u64,
    has_ended: bool,
) -> Found {
    while let Some(front) = queue.front() {
        // Looked at first: an element that is finished in between is no reason to say that a credit is worth
        // less.
        if let Some(bytes) = front.next_len() {
            let Some(pack) = front.take(elements as usize, element_bytes) else {
                return Found::NoCredit { bytes };
            };
            *taken += pack.len() as u64;
            return Found::Elements {
                fresh_elements: pack.len() as u64,
                // With the gap behind the last element, as the producer counts: what is left must come to
                // nothing in the end.
                fresh_bytes: strides_bytes(&pack),
                pack,
            };
        }
        // Only the last pack can still be written to.
        if queue.len() == 1 && !has_ended {
            break;
        }
        *taken = taken.saturating_sub(front.finished() as u64);
        queue.pop_front();
    }
    Found::Nothing
}
