//! The execution of `bucket_by_sequence_length`, which batches elements of similar length.

use millstream_element::ElementSpec;

use crate::exec::call::Chain;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, Buckets};

use super::definition;
use crate::exec::groups::{Groups, number};
use crate::exec::padding::Padding;
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::exec::rows::joined;
use std::sync::Arc;

/// The entry of `bucket_by_sequence_length` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["bucket_by_sequence_length"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Bucketing>()?;
    Ok(Box::new(WithBucketing {
        function: preparing.body(&operation.length, Some(preparing.input()?))?,
        operation: operation.clone(),
    }))
}

struct WithBucketing {
    operation: definition::Bucketing,
    function: Arc<Program>,
}

impl Prepared for WithBucketing {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let length = self.function.chain(shared)?;
        let (buckets, spec) = (&self.operation.buckets, opening.input_spec()?);
        Ok(Box::new(Bucket::new(buckets, spec, length, input, shared)?))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}

const OP: &str = "bucket_by_sequence_length";

pub(crate) struct Bucket {
    buckets: Buckets,
    /// The padding for the batches of each bucket. Empty if batches are not padded.
    paddings: Vec<Padding>,
    length: Chain,
    input: Input,
    cancel: Cancel,
    /// The number of restarts of the operation so far.
    pass: u64,
    groups: Groups,
    faults: Faults,
    input_ended: bool,
}

impl Bucket {
    pub(crate) fn new(
        buckets: &Buckets,
        spec: &ElementSpec,
        length: Chain,
        input: Input,
        shared: &Shared,
    ) -> Result<Bucket, ExecError> {
        let mut paddings = Vec::new();
        for bucket in 0..buckets.batch_sizes.len() {
            let boundary = buckets.boundaries.get(bucket);
            // The bucket below a boundary of 0 or less stays empty, so its longest length does not
            // matter.
            let longest = boundary.map(|boundary| u64::try_from(boundary - 1).unwrap_or(0));
            match buckets.padding {
                graph::Padding::Longest => paddings.push(Padding::unknown(spec, None)?),
                graph::Padding::Boundary => paddings.push(Padding::unknown(spec, longest)?),
                graph::Padding::None => {}
            }
        }
        Ok(Bucket {
            buckets: buckets.clone(),
            paddings,
            length,
            input,
            cancel: shared.cancel.clone(),
            pass: 0,
            groups: Groups::new(OP, &shared.budget),
            faults: shared.faults(),
            input_ended: false,
        })
    }

    /// Returns the bucket of `item`, or `None` if `item` failed and the error policy skips it.
    fn bucket(&self, item: &Item) -> Result<Option<usize>, ExecError> {
        let Some(length) = number(OP, &self.length, item, self.pass, &self.faults)? else {
            return Ok(None);
        };
        let bucket = self.buckets.of(length);
        if self.buckets.padding == graph::Padding::Boundary && bucket == self.buckets.boundaries.len() {
            let message = format!(
                "cannot pad an element whose length {length} is beyond the last boundary: add a boundary, or filter out \
                 longer elements"
            );
            let error = ExecError::new(ErrorKind::Value, OP, message).at(item.origin.as_ref());
            let error = error.at_position(item.position);
            return self.faults.leave_out(error, &item.marks).map(|()| None);
        }
        Ok(Some(bucket))
    }

    /// Stacks `items` to a batch, or returns `None` if stacking failed and the error policy skips the
    /// batch.
    fn batch(&self, bucket: usize, items: Vec<Item>) -> Result<Option<Item>, ExecError> {
        match self.paddings.get(bucket) {
            Some(padding) => padding.stack(OP, items, &self.faults),
            None => joined(OP, items, &self.faults, |_, rows| {
                Tensor::stack(rows).map(|tensor| Value::from_buf([tensor]))
            }),
        }
    }
}

impl Iterate for Bucket {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.input_ended {
            self.cancel.check(OP)?;
            let Some(item) = self.input.next()? else {
                self.input_ended = true;
                break;
            };
            let Some(bucket) = self.bucket(&item)? else {
                continue;
            };
            let size = self.buckets.batch_sizes.get(bucket).copied().unwrap_or(1);
            // A list of buckets has at most 2^24 entries, so the index fits.
            if let Some(full) = self.groups.add(bucket as i64, item, || Ok(size))?
                && let Some(batch) = self.batch(bucket, full)?
            {
                return Ok(Some(batch));
            }
        }
        while let Some((bucket, items, size)) = self.groups.pop_first() {
            let is_partial = (items.len() as u64) < size;
            if !(is_partial && self.buckets.drop_remainder) {
                let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
                if let Some(batch) = self.batch(bucket, items)? {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.groups.clear();
        self.input_ended = false;
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        state.number(self.pass)?;
        state.flag(self.input_ended)?;
        self.groups.save(state)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.pass = state.number()?;
        self.input_ended = state.flag()?;
        self.groups.restore(state)?;
        self.input.restore(state)
    }
}
