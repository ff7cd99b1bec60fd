//! Exactly-once jobs: the splits that a trainer reads, the order of their elements, and the position from
//! which a trainer resumes.
//!
//! - [`ExactTerms`]: the terms on which a trainer reads a job
//! - [`Place`]: a position of a trainer in its epoch, of a few bytes
//! - [`EpochLineage`]: the records from which an element was made
//! - [`ExactReader`]: the elements of a pass in their fixed or any order, each of them once
//! - [`QuarantineTerms`]: the limits on elements that fail, and the elements that are left out
//! - `quarantine`: the decision about an element that failed
//! - `source`: a pass of a job as a source in the trainer
//! - `sequence`: the order of elements that several workers send, without repeated ones
//! - `finished`: one bit for each split that a trainer in any order has finished early
//! - `model`: a small job of which a checker visits every state, in tests
//! - `simulation`: whole epochs with faults, in tests

mod finished;
mod lineage;
#[cfg(test)]
mod model;
mod place;
mod quarantine;
mod reader;
mod sequence;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod simulation;
mod source;
mod terms;

pub use lineage::{EpochLineage, Lineage, RecordsFile};
pub use place::Place;
pub use quarantine::QuarantineTerms;
pub use reader::{ExactReadError, ExactReader};
pub(crate) use source::{ExactSource, placed};
pub use terms::ExactTerms;
