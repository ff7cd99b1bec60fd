//! Operations on strings and byte strings, as parts of an expression.
//!
//! Numbers of variants and fields are their identity on the wire and are never reused.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::dtype_field::DtypeField;

/// Bytes of a pattern, and of what it is replaced with.
const PATTERN_BYTES_MAX: usize = 1 << 16;
/// Words of a vocabulary.
const VOCABULARY_MAX: usize = 1 << 24;
/// Operands that are joined.
const OPERANDS_MAX: usize = 256;

/// An operation on strings.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Text {
    /// Lower case: of strings all letters, of byte strings those of ASCII.
    #[n(0)]
    Lower,
    /// Upper case, likewise.
    #[n(1)]
    Upper,
    /// Without the white space at both ends.
    #[n(2)]
    Strip,
    /// The length, `i64`.
    #[n(3)]
    Length(#[n(0)] TextUnit),
    /// A part of it.
    #[n(4)]
    Substr(#[n(0)] Substr),
    /// Whether a pattern matches: all of it (true), or anything in it.
    #[n(5)]
    Matches(#[n(0)] String, #[n(1)] bool),
    /// Replacement of a pattern's matches: every match (true), or the first.
    #[n(6)]
    Replace(#[n(0)] String, #[n(1)] String, #[n(2)] bool),
    /// A scalar is cut into a vector.
    #[n(7)]
    Split(#[n(0)] Split),
    /// The items along the last axis as one, with this between them.
    #[n(8)]
    JoinAxis(#[n(0)] String),
    /// The operands as one, with this between them.
    #[n(9)]
    Join(#[n(0)] String),
    /// A number below this that follows from the bytes alone.
    #[n(10)]
    HashBucket(#[n(0)] u64),
    /// The number in a vocabulary.
    #[n(11)]
    Lookup(#[n(0)] Lookup),
    /// The number that it is in decimal notation.
    #[n(12)]
    ToNumber(#[n(0)] DtypeField),
    /// A number or truth in decimal notation.
    #[n(13)]
    ToText,
}

/// The unit of lengths and places of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum TextUnit {
    /// Bytes.
    #[default]
    #[n(0)]
    Bytes,
    /// Unicode scalar values; of strings only.
    #[n(1)]
    Chars,
}

/// Parameters of taking a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Substr {
    /// The place where it begins; negative = from the end.
    #[n(0)]
    pub start: i64,
    /// The largest length.
    #[n(1)]
    pub length: u64,
    /// The unit of both.
    #[n(2)]
    pub unit: TextUnit,
}

/// Parameters of cutting a string.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The text between the parts; absent = white space of any length, also at the ends.
    #[n(0)]
    pub separator: Option<String>,
    /// Cuts at most, from the left; absent = all.
    #[n(1)]
    pub cuts_max: Option<u64>,
}

/// Parameters of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Lookup {
    /// The words, each once. The first has number 0.
    #[n(0)]
    pub words: Vec<ByteVec>,
    /// The number of everything else, where there is one; absent, and no buckets: it is an error of the
    /// element.
    #[n(1)]
    pub other: Option<i64>,
    /// Into how many numbers behind those of the words everything else is hashed.
    #[n(2)]
    pub buckets: u64,
}

impl Text {
    /// The name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Text::Lower => "lower",
            Text::Upper => "upper",
            Text::Strip => "strip",
            Text::Length(_) => "text_len",
            Text::Substr(_) => "substr",
            Text::Matches(..) => "regex_match",
            Text::Replace(..) => "regex_replace",
            Text::Split(_) => "split",
            Text::JoinAxis(_) => "join",
            Text::Join(_) => "joined",
            Text::HashBucket(_) => "hash_bucket",
            Text::Lookup(_) => "lookup",
            Text::ToNumber(_) => "to_number",
            Text::ToText => "to_text",
        }
    }

    pub(crate) fn arity(&self) -> (usize, usize) {
        match self {
            Text::Join(_) => (1, OPERANDS_MAX),
            Text::Lower
            | Text::Upper
            | Text::Strip
            | Text::Length(_)
            | Text::Substr(_)
            | Text::Matches(..)
            | Text::Replace(..)
            | Text::Split(_)
            | Text::JoinAxis(_)
            | Text::HashBucket(_)
            | Text::Lookup(_)
            | Text::ToNumber(_)
            | Text::ToText => (1, 1),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Text::Matches(pattern, _) => check_length("pattern", pattern),
            Text::Replace(pattern, rewrite, _) => {
                check_length("pattern", pattern)?;
                check_length("replacement", rewrite)
            }
            Text::Split(split) => split.check(),
            Text::JoinAxis(separator) | Text::Join(separator) => check_length("separator", separator),
            Text::HashBucket(0) => Err("has no buckets".to_owned()),
            Text::HashBucket(buckets) if i64::try_from(*buckets).is_err() => {
                Err(format!("has {buckets} buckets, more than an i64 can number"))
            }
            Text::Lookup(lookup) => lookup.check(),
            Text::Lower
            | Text::Upper
            | Text::Strip
            | Text::Length(_)
            | Text::Substr(_)
            | Text::HashBucket(_)
            | Text::ToNumber(_)
            | Text::ToText => Ok(()),
        }
    }

    /// Returns whether it needs the feature `text`.
    pub(crate) fn needs_regex(&self) -> bool {
        matches!(self, Text::Matches(..) | Text::Replace(..))
    }
}

impl Split {
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.separator {
            Some(separator) if separator.is_empty() => {
                Err("has an empty separator: leave it out to split at white space".to_owned())
            }
            Some(separator) => check_length("separator", separator),
            None => Ok(()),
        }
    }
}

impl Lookup {
    fn check(&self) -> Result<(), String> {
        if self.words.len() > VOCABULARY_MAX {
            return Err(format!(
                "has {} words, the limit is {VOCABULARY_MAX}",
                self.words.len()
            ));
        }
        if self.other.is_some() && self.buckets > 0 {
            return Err("has both a number and buckets for other words: choose one".to_owned());
        }
        let last = (self.words.len() as u64).checked_add(self.buckets);
        if last.and_then(|last| i64::try_from(last).ok()).is_none() {
            return Err(format!(
                "has {} buckets, more than an i64 can number",
                self.buckets
            ));
        }
        let mut sorted: Vec<&[u8]> = self.words.iter().map(|word| word.as_slice()).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!(
                "has the word {:?} twice",
                String::from_utf8_lossy(pair[0])
            )),
            None => Ok(()),
        }
    }
}

fn check_length(what: &str, text: &str) -> Result<(), String> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!(
            "has a {what} of {} bytes, the limit is {PATTERN_BYTES_MAX}",
            text.len()
        ));
    }
    Ok(())
}
