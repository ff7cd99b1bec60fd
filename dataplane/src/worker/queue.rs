//! A queue of packs whose elements wait for clients. Clients are unknown to the queue.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_element::{OpenPack, Pack};

use crate::proto::send::strides_bytes;

/// Packs with waiting elements, in order. Only the last pack may still be written.
pub(super) type Queue = VecDeque<Arc<OpenPack>>;

/// The result of a client's request for elements.
#[derive(Debug)]
pub(super) enum Found {
    /// Elements for the client. The fresh elements, which no client had before, are the last of the pack. The
    /// number of fresh bytes includes the gaps after the elements.
    Elements {
        pack: Pack,
        fresh_elements: u64,
        fresh_bytes: u64,
    },
    /// The next element has this size, but no credit of the client is large enough.
    NoCredit { bytes: u64 },
    /// No element waits for the client.
    Nothing,
    /// The client has no place in the task.
    NoPlace,
}

/// Maximum number of packs in which ready elements are counted.
const PACKS_LOOKED_AT: usize = 64;

/// Returns the number of waiting elements in the first packs of a queue. `taken` is the number of elements
/// already taken from the packs in the queue.
pub(super) fn ready_in(queue: &Queue, taken: u64) -> u64 {
    let packs = queue.iter().take(PACKS_LOOKED_AT);
    let finished: u64 = packs.map(|pack| pack.finished() as u64).sum();
    finished.saturating_sub(taken)
}

/// Takes waiting elements from the front of a queue. `taken` is the number of elements already taken from the
/// packs in the queue.
pub(super) fn take_first(
    queue: &mut Queue,
    taken: &mut u64,
    elements: u64,
    element_bytes: u64,
    has_ended: bool,
) -> Found {
    while let Some(front) = queue.front() {
        // The length is read before the elements are taken. Otherwise an element that is finished in between
        // would look like one for which a credit is too small.
        if let Some(bytes) = front.next_len() {
            let Some(pack) = front.take(elements as usize, element_bytes) else {
                return Found::NoCredit { bytes };
            };
            *taken += pack.len() as u64;
            return Found::Elements {
                fresh_elements: pack.len() as u64,
                // The bytes include the gap after the last element, like the producer's count, so that the
                // remaining bytes end at zero.
                fresh_bytes: strides_bytes(&pack),
                pack,
            };
        }
        // Only the last pack can still be written.
        if queue.len() == 1 && !has_ended {
            break;
        }
        *taken = taken.saturating_sub(front.finished() as u64);
        queue.pop_front();
    }
    Found::Nothing
}
