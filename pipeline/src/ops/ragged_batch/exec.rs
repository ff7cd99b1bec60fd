//! The execution of `ragged_batch`, which combines consecutive elements into ragged tensors.

use bytes::Bytes;
use millstream_element::{Dtype, ElementSpec};

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::ragged_rank;

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::rows::{Rows, joined};
use crate::graph::codec::decode_params;

/// The entry of `ragged_batch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["ragged_batch"]],
    decode: decode_params::<definition::RaggedBatch>,
    named: Some(named::<definition::RaggedBatch>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::RaggedBatch>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        let rows = Rows::new(operation.size, operation.drop_remainder, opening.input()?, shared);
        Ok(Box::new(RaggedBatch::new(opening.input_spec()?, rows)?))
    })
}

const OP: &str = "ragged_batch";

pub(crate) struct RaggedBatch {
    /// The number of ragged dimensions of each component.
    ranks: Vec<u8>,
    rows: Rows,
}

impl RaggedBatch {
    pub(crate) fn new(input: &ElementSpec, rows: Rows) -> Result<RaggedBatch, ExecError> {
        let ranks = input.components().iter().map(ragged_rank);
        let ranks = ranks.collect::<Result<_, _>>();
        let ranks = ranks.map_err(|reason| ExecError::new(ErrorKind::Caller, OP, reason))?;
        Ok(RaggedBatch { ranks, rows })
    }
}

impl Iterate for RaggedBatch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(rows) = self.rows.next(OP)? {
            let ranks = &self.ranks;
            let batch = joined(OP, rows, &self.rows.faults, |index, rows| {
                match ranks.get(index) {
                    None | Some(0) => Tensor::stack(rows).map(|tensor| Value::from_buf([tensor])),
                    Some(rank) => ragged(&rows, usize::from(*rank)),
                }
            })?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.rows.input.restart()
    }

    fn further(&self) -> Further {
        self.rows.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        self.rows.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.rows.input.restore(state)
    }
}

/// Returns the values and the row splits of a batch of `rows`, whose first `rank` dimensions become
/// ragged.
fn ragged(rows: &[Tensor], rank: usize) -> Result<Value, String> {
    let first = rows
        .first()
        .ok_or_else(|| "expected at least one row in a batch".to_owned())?;
    let mut splits: Vec<Vec<i64>> = vec![vec![0]; rank];
    let mut values: u64 = 0;
    for row in rows {
        if row.dims().len() < rank {
            return Err(format!(
                "expected at least {rank} dimensions in a tensor, found {}",
                row.dims().len()
            ));
        }
        // The number of sub-tensors of this row at the current dimension. Each sub-tensor adds one row
        // split.
        let mut parts: u64 = 1;
        for (splits, dim) in splits.iter_mut().zip(row.dims()) {
            for _ in 0..parts {
                let end = splits.last().copied().unwrap_or(0);
                splits.push(end + *dim as i64);
            }
            parts *= dim;
        }
        values += parts;
    }
    let inner = first.dims().get(rank..).unwrap_or_default();
    let dims: Vec<u64> = std::iter::once(values).chain(inner.iter().copied()).collect();
    let mut joined = Value::from_buf([concatenated(rows, &dims)?]);
    for splits in splits {
        let bytes: Vec<u8> = splits.iter().flat_map(|split| split.to_le_bytes()).collect();
        joined.push(Tensor::fixed(Dtype::I64, &[splits.len() as u64], bytes)?);
    }
    Ok(joined)
}

/// Joins the items of all `rows` to one tensor with the dimensions `dims`.
fn concatenated(rows: &[Tensor], dims: &[u64]) -> Result<Tensor, String> {
    let dtype = rows.first().map_or(Dtype::I64, Tensor::dtype);
    if dtype.item_bytes().is_none() {
        let mut items = Vec::new();
        for row in rows {
            row.for_each_string(&mut |item| items.push(Bytes::copy_from_slice(item)));
        }
        return Tensor::strings(dtype, dims, items);
    }
    let mut bytes = Vec::new();
    for row in rows {
        bytes.extend_from_slice(
            row.contiguous()
                .ok_or_else(|| "a deferred tensor was not computed".to_owned())?,
        );
    }
    Tensor::fixed(dtype, dims, bytes)
}
