//! The execution of `pack_sequences`, which joins sequences of tokens and cuts the result into rows of
//! one length.

use millstream_element::{Dtype, ElementSpec};

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::mix;
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::exec::value::{Tensor, Value};
use crate::graph::codec::decode_params;
use crate::graph::{self, Cut, column_of};

/// The entry of `pack_sequences` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["pack_sequences"]],
    decode: decode_params::<definition::PackSequences>,
    named: Some(named::<definition::PackSequences>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::PackSequences>()?.clone();
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(PackSequences::new(
            operation.clone(),
            opening.input_spec()?,
            opening.input()?,
            shared,
        )?))
    })
}

const OP: &str = "pack_sequences";

pub(crate) struct PackSequences {
    pack: graph::PackSequences,
    component: usize,
    input: Input,
    cancel: Cancel,
    /// The sequence whose remaining tokens belong to the next row.
    pending: Option<Pending>,
    ended: bool,
}

/// A computed sequence. The tokens from `next` on have not been packed yet.
struct Pending {
    item: Item,
    next: usize,
}

/// A row that is being filled.
#[derive(Default)]
struct Row {
    tokens: Vec<u8>,
    segments: Vec<u8>,
    positions: Vec<u8>,
    /// The number of sequences in the row.
    sequences: i32,
    marks: Marks,
    /// The position of the row's first token.
    position: u64,
}

impl PackSequences {
    pub(crate) fn new(
        pack: graph::PackSequences,
        spec: &ElementSpec,
        input: Input,
        shared: &Shared,
    ) -> Result<PackSequences, ExecError> {
        let component = column_of(&pack.component, spec)
            .map_err(|reason| ExecError::new(ErrorKind::Caller, OP, reason))?;
        Ok(PackSequences {
            pack,
            component,
            input,
            cancel: shared.cancel.clone(),
            pending: None,
            ended: false,
        })
    }

    /// Reads the next sequence unless one is pending. Returns `false` at the end of the input.
    fn ensure_pending(&mut self) -> Result<bool, ExecError> {
        while self.pending.is_none() && !self.ended {
            self.cancel.check(OP)?;
            match self.input.next()? {
                Some(item) => self.pending = Some(self.opened(item)?),
                None => self.ended = true,
            }
        }
        Ok(self.pending.is_some())
    }

    fn opened(&self, mut item: Item) -> Result<Pending, ExecError> {
        let missing = || ExecError::new(ErrorKind::Internal, OP, "the component is missing");
        let tokens = item.value.get(self.component).ok_or_else(missing);
        let tokens = tokens
            .and_then(Tensor::settled)
            .and_then(|tokens| match tokens.dims() {
                [_] => Ok(tokens),
                dims => {
                    let message =
                        format!("expected a vector of tokens, found a tensor of the shape {dims:?}");
                    Err(ExecError::new(ErrorKind::Value, OP, message))
                }
            });
        let tokens = tokens.map_err(|error| {
            token::abandon(&item.marks);
            error.at(item.origin.as_ref()).at_position(item.position)
        })?;
        // Keeps the token component only, because the other components are not packed.
        item.value = Value::from_buf([tokens]);
        Ok(Pending { item, next: 0 })
    }

    /// Returns the number of tokens in the pending sequence, including its separator.
    fn length(&self, pending: &Pending) -> usize {
        let tokens = pending
            .item
            .value
            .first()
            .and_then(|tokens| tokens.dims().first());
        let tokens = tokens.map_or(0, |tokens| *tokens as usize);
        tokens + usize::from(self.pack.separator.is_some())
    }

    /// Moves tokens of the pending sequence to `row`, up to the end of the row. Returns `false` if the
    /// sequence must begin in the next row instead.
    fn fill(&mut self, row: &mut Row) -> Result<bool, ExecError> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(true);
        };
        let length = self.length(&pending);
        let room = self.pack.length as usize - row.len();
        let left = length - pending.next;
        if self.pack.cut == Cut::TooLong && left > room && row.len() > 0 {
            self.pending = Some(pending);
            return Ok(false);
        }
        let taken = left.min(room);
        if row.len() == 0 {
            row.position = mix(pending.item.position, pending.next as u64);
        }
        if taken > 0 {
            row.sequences += 1;
            self.push(row, &pending, taken)?;
        }
        token::merge(&mut row.marks, pending.item.marks.clone());
        pending.next += taken;
        if pending.next < length {
            self.pending = Some(pending);
        }
        Ok(true)
    }

    fn push(&self, row: &mut Row, pending: &Pending, taken: usize) -> Result<(), ExecError> {
        let missing = || ExecError::new(ErrorKind::Internal, OP, "the tokens are missing");
        let tokens = pending.item.value.first().ok_or_else(missing)?;
        let bytes = tokens.contiguous().ok_or_else(missing)?;
        let size = tokens.dtype().item_bytes().ok_or_else(missing)?;
        let there = bytes.len() / size;
        let end = pending.next + taken;
        row.tokens.extend_from_slice(
            bytes
                .get(pending.next.min(there) * size..end.min(there) * size)
                .unwrap_or_default(),
        );
        if end > there {
            self.push_token(row, self.pack.separator.unwrap_or(0), size);
        }
        for position in pending.next..end {
            row.segments.extend(row.sequences.to_le_bytes());
            // A tensor cannot hold more tokens than an `i32` counts, so the position fits.
            row.positions.extend((position as i32).to_le_bytes());
        }
        Ok(())
    }

    /// Appends the low bytes of `token`, which the analysis has checked to fit the dtype.
    fn push_token(&self, row: &mut Row, token: i64, size: usize) {
        row.tokens.extend_from_slice(&token.to_le_bytes()[..size.min(8)]);
    }

    /// Pads `row` and converts it to an element.
    fn finished(&self, mut row: Row, dtype: Dtype) -> Result<Item, ExecError> {
        let size = dtype.item_bytes().unwrap_or(8);
        let length = self.pack.length;
        for _ in row.len()..length as usize {
            self.push_token(&mut row, self.pack.padding, size);
            row.segments.extend(0i32.to_le_bytes());
            row.positions.extend(0i32.to_le_bytes());
        }
        let refused = |reason| ExecError::new(ErrorKind::Internal, OP, reason);
        let mut value = Value::new();
        value.push(Tensor::fixed(dtype, &[length], row.tokens).map_err(refused)?);
        for numbers in [row.segments, row.positions] {
            value.push(Tensor::fixed(Dtype::I32, &[length], numbers).map_err(refused)?);
        }
        Ok(Item::marked(value, row.marks, row.position))
    }
}

impl Row {
    /// Returns the number of tokens in the row.
    fn len(&self) -> usize {
        self.segments.len() / size_of::<i32>()
    }
}

impl Iterate for PackSequences {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let mut row = Row::default();
        let mut dtype = Dtype::I64;
        while (row.len() as u64) < self.pack.length && self.ensure_pending()? {
            let tokens = self
                .pending
                .as_ref()
                .and_then(|pending| pending.item.value.first());
            dtype = tokens.map_or(dtype, Tensor::dtype);
            if !self.fill(&mut row)? {
                break;
            }
        }
        let is_last = self.ended && self.pending.is_none();
        let is_dropped = is_last && self.pack.drop_remainder && (row.len() as u64) < self.pack.length;
        if row.len() == 0 || is_dropped {
            return Ok(None);
        }
        self.finished(row, dtype).map(Some)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        (self.pending, self.ended) = (None, false);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        state.flag(self.ended)?;
        state.flag(self.pending.is_some())?;
        if let Some(pending) = &self.pending {
            state.item(&pending.item)?;
            state.number(pending.next as u64)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.ended = state.flag()?;
        if state.flag()? {
            // The saved item holds only the tokens, so the tokens are now component 0.
            let component = std::mem::replace(&mut self.component, 0);
            let pending = self.opened(state.item()?);
            self.component = component;
            let mut pending = pending?;
            let next = usize::try_from(state.number()?).unwrap_or(usize::MAX);
            pending.next = next.min(self.length(&pending));
            self.pending = Some(pending);
        }
        self.input.restore(state)
    }
}
