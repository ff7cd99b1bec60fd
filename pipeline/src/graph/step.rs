//! The family of operations that make elements of one input's by their parameters alone: parameters, encoding, rules and what
//! each keeps, so that the rest of the graph has one case for all of them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

use super::cardinality::{declared, repeated, rows, thinned};
use super::check::{check_buffer, check_name};
use super::codec::{Parameters, encoded};
use super::error::GraphError;
use super::facts::Cardinality;
use super::pack_sequences::PackSequences;
use super::spec::without_leading;

/// Sizes that a `rebatch` goes through by turns.
const SIZES_MAX: usize = 4096;

/// An operation over one input that has parameters alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Batches cut anew, into batches of other sizes.
    Rebatch(Rebatch),
    /// The input several times over, each pass shuffled; the next is read while one is drawn to its end.
    ShuffleAndRepeat(ShuffleAndRepeat),
    /// Each element once, however often it comes.
    Unique,
    /// Fails unless there are so many elements.
    AssertCardinality(AssertCardinality),
    /// What comes between elements that fail.
    IgnoreErrors(IgnoreErrors),
    /// Nothing to the elements; measures them under a name.
    Statistics(Statistics),
    /// Sequences of tokens one behind the other, in rows of one length.
    PackSequences(PackSequences),
}

/// Parameters of `rebatch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Rebatch {
    /// Rows of each batch, at least 1, by turns: at least one size.
    #[n(0)]
    pub sizes: Vec<u64>,
    /// Whether a last batch of fewer rows is dropped.
    #[n(1)]
    pub drop_remainder: bool,
}

/// Parameters of `shuffle_and_repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ShuffleAndRepeat {
    /// Elements held to draw from, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// How many passes; absent = without end.
    #[n(1)]
    pub count: Option<u64>,
    /// The seed; without one every task draws its own.
    #[n(2)]
    pub seed: Option<u64>,
}

/// Parameters of `assert_cardinality`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AssertCardinality {
    /// How many elements there are; absent = there is no end.
    #[n(0)]
    pub count: Option<u64>,
}

/// Parameters of `ignore_errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct IgnoreErrors {
    /// Whether each error is logged as a warning, without flooding.
    #[n(0)]
    pub log_warning: bool,
}

/// Parameters of `statistics`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Statistics {
    /// What is measured is found under this name; operations of one name are measured together.
    #[n(0)]
    pub name: String,
}

impl Step {
    /// The names of all of them.
    pub(super) const NAMES: &'static [&'static str] = &[
        "rebatch",
        "shuffle_and_repeat",
        "unique",
        "assert_cardinality",
        "ignore_errors",
        "statistics",
        "pack_sequences",
    ];

    /// The name on the wire and in messages.
    pub fn op_name(&self) -> &'static str {
        match self {
            Step::Rebatch(_) => "rebatch",
            Step::ShuffleAndRepeat(_) => "shuffle_and_repeat",
            Step::Unique => "unique",
            Step::AssertCardinality(_) => "assert_cardinality",
            Step::IgnoreErrors(_) => "ignore_errors",
            Step::Statistics(_) => "statistics",
            Step::PackSequences(_) => "pack_sequences",
        }
    }

    /// Its parameters as bytes.
    pub(super) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Step::Rebatch(params) => encoded(params),
            Step::ShuffleAndRepeat(params) => encoded(params),
            Step::Unique => Ok(Vec::new()),
            Step::AssertCardinality(params) => encoded(params),
            Step::IgnoreErrors(params) => encoded(params),
            Step::Statistics(params) => encoded(params),
            Step::PackSequences(params) => encoded(params),
        }
    }

    /// The operation that these are the parameters of, if it is of this family.
    pub(super) fn decode(params: &Parameters<'_>) -> Result<Option<Step>, GraphError> {
        Ok(Some(match params.op {
            "rebatch" => Step::Rebatch(params.decode()?),
            "shuffle_and_repeat" => Step::ShuffleAndRepeat(params.decode()?),
            "unique" => Step::Unique,
            "assert_cardinality" => Step::AssertCardinality(params.decode()?),
            "ignore_errors" => Step::IgnoreErrors(params.decode()?),
            "statistics" => Step::Statistics(params.decode()?),
            "pack_sequences" => Step::PackSequences(params.decode()?),
            _ => return Ok(None),
        }))
    }

    /// The rules that parameters obey by themselves.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Step::Rebatch(rebatch) => {
                if rebatch.sizes.is_empty() || rebatch.sizes.len() > SIZES_MAX {
                    let sizes = rebatch.sizes.len();
                    return Err(format!("goes through {sizes} sizes, it takes 1 to {SIZES_MAX}"));
                }
                let mut sizes = rebatch.sizes.iter();
                sizes.try_for_each(|size| check_buffer("batch size", *size))
            }
            Step::ShuffleAndRepeat(shuffle) => check_buffer("shuffle buffer", shuffle.buffer),
            Step::Statistics(statistics) => check_name("name", &statistics.name),
            Step::PackSequences(pack) => pack.check(),
            Step::Unique | Step::AssertCardinality(_) | Step::IgnoreErrors(_) => Ok(()),
        }
    }

    /// What it yields, given elements of `input`.
    pub(super) fn spec(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        if let Step::PackSequences(pack) = self {
            return pack.spec(input);
        }
        let Step::Rebatch(rebatch) = self else {
            return Ok(input.clone());
        };
        let row = without_leading(input)?;
        row.batched(rebatch.one_size().filter(|_| rebatch.drop_remainder))
            .map_err(|error| error.to_string())
    }

    /// How many elements it yields, given so many of `spec`.
    pub(super) fn cardinality(&self, input: Cardinality, spec: &ElementSpec) -> Cardinality {
        match self {
            Step::Rebatch(rebatch) => match (input, rows(spec)) {
                (Cardinality::Finite(count), Some(rows)) => {
                    count.checked_mul(rows).map_or(Cardinality::Unknown, |rows| {
                        Cardinality::Finite(rebatch.batches(rows))
                    })
                }
                (Cardinality::Infinite, Some(1..)) => Cardinality::Infinite,
                (Cardinality::Finite(0), _) => Cardinality::Finite(0),
                (Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown, _) => {
                    Cardinality::Unknown
                }
            },
            Step::ShuffleAndRepeat(shuffle) => repeated(shuffle.count, input),
            Step::Unique | Step::IgnoreErrors(_) | Step::PackSequences(_) => thinned(input),
            Step::AssertCardinality(asserted) => declared(asserted.count, asserted.count.is_none()),
            Step::Statistics(_) => input,
        }
    }

    /// Why positions cannot be followed through it.
    pub(super) fn misaligns(&self) -> Option<&'static str> {
        match self {
            Step::Rebatch(_) => Some("makes several elements of one position"),
            Step::ShuffleAndRepeat(_) => Some("mixes positions"),
            Step::PackSequences(_) => Some("puts several positions into one element"),
            Step::Unique => Some("drops what a task has seen, which depends on the positions it was given"),
            Step::AssertCardinality(_) | Step::IgnoreErrors(_) | Step::Statistics(_) => None,
        }
    }

    /// Whether it yields the same elements in whatever order its input comes.
    pub(super) fn ignores_order(&self) -> bool {
        match self {
            Step::AssertCardinality(_) | Step::IgnoreErrors(_) | Step::Statistics(_) => true,
            // Which of several equals is kept says nothing of what they are, but positions do.
            Step::Unique | Step::Rebatch(_) | Step::ShuffleAndRepeat(_) | Step::PackSequences(_) => false,
        }
    }

    /// Draws with `seed` where it has no seed of its own.
    pub(super) fn draw_alike(&mut self, seed: u64) {
        if let Step::ShuffleAndRepeat(shuffle) = self {
            shuffle.seed.get_or_insert(seed);
        }
    }
}

impl Rebatch {
    /// Rows of batch number `index`.
    pub(crate) fn size(&self, index: u64) -> u64 {
        // A graph's rebatch has at least one size and at most 4096.
        self.sizes[(index % self.sizes.len() as u64) as usize]
    }

    /// The size, if there is one for all batches.
    fn one_size(&self) -> Option<u64> {
        let first = self.sizes.first().copied();
        first.filter(|first| self.sizes.iter().all(|size| size == first))
    }

    /// How many batches so many rows make.
    fn batches(&self, rows: u64) -> u64 {
        // At most 4096 sizes of 2^24.
        let round: u64 = self.sizes.iter().sum();
        let mut left = rows % round;
        let mut batches = rows / round * self.sizes.len() as u64;
        for size in &self.sizes {
            if left < *size {
                break;
            }
            left -= size;
            batches += 1;
        }
        batches + u64::from(left > 0 && !self.drop_remainder)
    }
}
