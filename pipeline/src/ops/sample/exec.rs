//! The execution of `sample`, which takes each element from a randomly drawn input.

use super::definition;
use super::pick::{Draws, Pick};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;

/// The entry of `sample` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["sample"]],
    decode: decode_params::<definition::Sample>,
    named: Some(named::<definition::Sample>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Sample>()?.clone();
    prepared(move |opening| {
        let inputs = opening.inputs()?;
        let shared = opening.shared;
        let seeds = shared
            .seeds(opening.drawn(), operation.seed)
            .fixed_if(operation.fixed);
        let picks = Draws::new(&operation.weights, seeds);
        Ok(Box::new(Pick::new(
            picks,
            inputs,
            operation.stop_on_empty,
            shared.cancel.clone(),
        )))
    })
}
