//! A walk through the positions of a source, pass by pass: all positions, or the positions of the splits that
//! a feed hands out. The source alone knows which element is at a position.

use std::ops::Range;
use std::sync::Arc;

use crate::graph::Units;

use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::iterate::Further;
use super::splits::Feed;
use super::state::{StateError, StateReader, StateWriter};
use super::token::{Ledger, Mark, Marks, SplitToken};

/// A walk through the positions of a source.
#[derive(Debug)]
pub(crate) struct Cursor {
    op: String,
    /// The number of positions of a whole pass.
    positions: u64,
    /// The rest of the current split, or of the pass if the source is not read in splits.
    left: Range<u64>,
    ended: bool,
    /// The number of restarts, which is also the number of the pass whose splits are read.
    pass: u64,
    fed: Option<Fed>,
}

/// The state of a cursor whose positions arrive in splits.
#[derive(Debug)]
struct Fed {
    feed: Feed,
    source: u32,
    cut: Cut,
    ledger: Arc<Ledger>,
    /// Whether elements carry marks. If the dataset runs on each split alone, its root marks the elements.
    is_marked: bool,
    current: Option<Current>,
}

/// The split that is being read.
#[derive(Debug)]
struct Current {
    payload: Vec<u8>,
    /// The position at which the split starts.
    start: u64,
    /// The cursor's share of the split's token, until the split's last element has been made.
    token: Option<Arc<SplitToken>>,
}

/// The rule that converts the index of a split into positions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// A rule by which each split is a range of a fixed size.
    Units(Units),
    /// A rule by which each split is one position.
    Single,
}

impl Cursor {
    /// Returns a cursor over `positions`. The cursor reads splits if `shared` has a feed and `source` numbers
    /// one of the graph's own sources.
    pub(crate) fn new(op: &str, positions: u64, shared: &Shared, source: Option<u32>, cut: Cut) -> Cursor {
        let fed = match (&shared.feed, source) {
            (Some(feed), Some(source)) => Some(Fed {
                feed: feed.clone(),
                source,
                cut,
                ledger: Arc::clone(&shared.ledger),
                is_marked: shared.split.is_none(),
                current: None,
            }),
            (Some(_) | None, _) => None,
        };
        let left = if fed.is_some() { 0..0 } else { 0..positions };
        Cursor {
            op: op.to_owned(),
            positions,
            left,
            ended: false,
            pass: 0,
            fed,
        }
    }

    /// Returns the next position, or `None` at the end of the pass.
    pub(crate) fn next(&mut self) -> Result<Option<u64>, ExecError> {
        loop {
            if let Some(position) = self.left.next() {
                return Ok(Some(position));
            }
            if self.ended || !self.next_split()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    /// Returns the marks of the element at `position`, which must be the position returned last. The `last`
    /// element of a split takes the cursor's own share, so that the split finishes as soon as its elements
    /// are dropped.
    pub(crate) fn marks(&mut self, position: u64, last: bool) -> Marks {
        let mut marks = Marks::new();
        if let Some(current) = self.fed.as_mut().and_then(|fed| fed.current.as_mut()) {
            let from = position - current.start;
            let token = if last {
                current.token.take()
            } else {
                current.token.clone()
            };
            marks.extend(token.map(|token| Mark {
                token,
                from,
                upto: from + 1,
            }));
        }
        marks
    }

    /// Returns whether the position returned last ends its split or pass.
    pub(crate) fn is_last(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the plan's payload of the split that is being read.
    pub(crate) fn payload(&self) -> Option<&[u8]> {
        let current = self.fed.as_ref().and_then(|fed| fed.current.as_ref());
        current.map(|current| current.payload.as_slice())
    }

    /// Returns the number of restarts.
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// Takes the rest of the current split or pass at once, for sources that are opened at a range. Returns
    /// `None` at the end of the pass.
    pub(crate) fn next_range(&mut self) -> Result<Option<Range<u64>>, ExecError> {
        loop {
            if !self.left.is_empty() {
                let range = self.left.clone();
                self.left.start = self.left.end;
                return Ok(Some(range));
            }
            if self.ended || !self.next_split()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    /// Puts back the ranges of this pass that [`Cursor::next_range`] returned.
    pub(crate) fn rewind(&mut self) {
        self.left.start = 0;
    }

    /// Ends the pass before its last position, for sources that learn their size late.
    pub(crate) fn end(&mut self) {
        self.left.end = self.left.start;
        self.ended = true;
    }

    /// Returns whether positions arrive in splits.
    pub(crate) fn is_fed(&self) -> bool {
        self.fed.is_some()
    }

    /// Begins the next pass. Nobody reads the rest of the current pass, nor the splits that were leased for
    /// it in advance. The leases end as finished once all elements made from the splits are dropped.
    pub(crate) fn restart(&mut self) -> Result<(), ExecError> {
        match &mut self.fed {
            Some(fed) => {
                fed.current = None;
                if !self.ended {
                    for split in fed.feed.pass_over(&self.op, fed.source)? {
                        drop(SplitToken::new(split.lease, split.attempt, &fed.ledger));
                    }
                }
                self.left = 0..0;
            }
            None => self.left = 0..self.positions,
        }
        self.pass = self.pass.wrapping_add(1);
        self.ended = false;
        Ok(())
    }

    /// Returns which passes may follow the current pass.
    pub(crate) fn further(&self) -> Further {
        let is_draining = || self.fed.as_ref().is_some_and(|fed| fed.feed.is_draining());
        if self.positions == 0 || is_draining() {
            Further::Nothing
        } else if self.is_behind() {
            Further::Behind
        } else {
            Further::Open
        }
    }

    /// Returns whether the feed already hands out a later pass, so that the current pass has no more splits.
    fn is_behind(&self) -> bool {
        let current = self.fed.as_ref().and_then(|fed| fed.feed.current(fed.source));
        current.is_some_and(|current| current > self.pass)
    }

    pub(crate) fn save(&self, state: &mut StateWriter) -> Result<(), StateError> {
        if self.fed.is_some() {
            return Err(StateError::SplitDriven);
        }
        state.number(self.pass)?;
        state.number(self.left.start)
    }

    pub(crate) fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        if self.fed.is_some() {
            return Err(StateError::SplitDriven);
        }
        self.pass = state.number()?;
        let start = state.number()?;
        if start > self.positions {
            return Err(StateError::Malformed(format!(
                "expected a position of at most {}, found {start}",
                self.positions
            )));
        }
        self.left = start..self.positions;
        Ok(())
    }

    /// Moves on to the next split. Returns `false` if the pass has no more splits.
    fn next_split(&mut self) -> Result<bool, ExecError> {
        let is_behind = self.is_behind();
        let Some(fed) = &mut self.fed else {
            return Ok(false);
        };
        // The split just read is released first, so that it can finish while this call waits for the next
        // split.
        fed.current = None;
        if is_behind {
            return Ok(false);
        }
        let Some(split) = fed.feed.next(&self.op, fed.source, self.pass)? else {
            return Ok(false);
        };
        let range = match fed.cut {
            Cut::Units(units) => units.range(split.index),
            Cut::Single => (split.index < self.positions).then(|| split.index..split.index + 1),
        };
        let range = range.ok_or_else(|| {
            let message = format!(
                "expected a split within the {1} positions of the source, found split {0}",
                split.index, self.positions
            );
            ExecError::new(ErrorKind::Peer, &*self.op, message)
        })?;
        let token = || SplitToken::new(split.lease, split.attempt, &fed.ledger);
        let token = fed.is_marked.then(token);
        self.left = range.clone();
        fed.current = Some(Current {
            payload: split.payload,
            start: range.start,
            token,
        });
        Ok(true)
    }
}
