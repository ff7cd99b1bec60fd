//! A piece: consecutive splits leased together, with one bit for each held split and one bit for each seen
//! split.
//!
//! A split takes a quarter of a byte, even if the deliveries are scattered as after a shuffle. The store
//! needs the same space, and writes all bits of a piece with each change.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::Run;
use crate::split::LeaseRange;

/// Maximum number of splits of one piece, so that each of its bit sets takes 128 bytes.
pub(super) const PIECE_SPLITS_MAX: u64 = 1024;

/// The part of one leased run that is still held.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Piece {
    /// The run as it was leased, of at most [`PIECE_SPLITS_MAX`] splits. The field `seen` of this run has
    /// no meaning.
    #[n(0)]
    run: Run,
    /// The splits of the run that are held.
    #[n(1)]
    held: Bits,
    /// The splits of which a client may have seen some elements.
    #[n(2)]
    seen: Bits,
}

impl Piece {
    /// Returns the piece of a whole run of at most [`PIECE_SPLITS_MAX`] splits.
    pub(super) fn whole(run: Run) -> Piece {
        let mut piece = Piece {
            held: Bits::none(run.count),
            seen: Bits::none(run.count),
            run: Run { seen: false, ..run },
        };
        for place in 0..run.count {
            piece.held.set(place);
        }
        if run.seen {
            piece.mark_all_seen();
        }
        piece
    }

    /// Returns the leases of the whole run, held or not.
    pub(super) fn leases(&self) -> LeaseRange {
        self.run.leases()
    }

    /// Returns whether no split of the piece is held any more.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_clear()
    }

    /// Removes the held splits of the range, and returns them as runs.
    pub(super) fn take(&mut self, range: LeaseRange) -> Vec<Run> {
        let places = self.places(range);
        let taken = self.runs_in(places.clone());
        for place in places {
            self.held.clear(place);
            self.seen.clear(place);
        }
        taken
    }

    /// Notes that a client may have seen elements of these leases.
    pub(super) fn mark_seen(&mut self, range: LeaseRange) {
        for place in self.places(range) {
            if self.held.has(place) {
                self.seen.set(place);
            }
        }
    }

    /// Notes that a client may have seen elements of all held splits.
    pub(super) fn mark_all_seen(&mut self) {
        self.seen.clone_from(&self.held);
    }

    /// Returns the held splits, in as few runs as possible.
    pub(super) fn runs(&self) -> Vec<Run> {
        self.runs_in(0..self.run.count.min(PIECE_SPLITS_MAX))
    }

    fn runs_in(&self, places: std::ops::Range<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for place in places.filter(|place| self.held.has(*place)) {
            let seen = self.seen.has(place);
            let lease = self.run.first_lease + place;
            match runs.last_mut() {
                Some(last) if last.seen == seen && last.first_lease + last.count == lease => last.count += 1,
                Some(_) | None => runs.push(Run {
                    first_index: self.run.first_index + place,
                    first_lease: lease,
                    count: 1,
                    seen,
                    ..self.run
                }),
            }
        }
        runs
    }

    /// Returns the places within the run whose leases are in the range.
    fn places(&self, range: LeaseRange) -> std::ops::Range<u64> {
        let own = self.run.leases();
        if range.last() < own.first || range.first > own.last() {
            return 0..0;
        }
        let from = range.first.max(own.first) - own.first;
        from..range.last().min(own.last()) - own.first + 1
    }
}

/// One bit for each place of a run.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
struct Bits(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>);

impl Bits {
    fn none(count: u64) -> Bits {
        let bytes = count.min(PIECE_SPLITS_MAX).div_ceil(8);
        Bits(vec![0; usize::try_from(bytes).unwrap_or_default()])
    }

    fn has(&self, place: u64) -> bool {
        let (byte, bit) = at(place);
        self.0.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    fn set(&mut self, place: u64) {
        let (byte, bit) = at(place);
        if let Some(byte) = self.0.get_mut(byte) {
            *byte |= bit;
        }
    }

    fn clear(&mut self, place: u64) {
        let (byte, bit) = at(place);
        if let Some(byte) = self.0.get_mut(byte) {
            *byte &= !bit;
        }
    }

    fn is_clear(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }
}

/// Returns the byte and the bit of a place.
fn at(place: u64) -> (usize, u8) {
    (usize::try_from(place / 8).unwrap_or(usize::MAX), 1 << (place % 8))
}
