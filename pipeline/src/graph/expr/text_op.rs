//! The operations of expressions on strings and byte strings.
//!
//! The numbers of variants and fields identify them on the wire, and are never reused.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::dtype_field::DtypeField;

/// The maximum number of bytes of a pattern, a replacement or a separator.
const PATTERN_BYTES_MAX: usize = 1 << 16;
/// The maximum number of words in a vocabulary.
const VOCABULARY_MAX: usize = 1 << 24;
/// The maximum number of operands of `joined`.
const OPERANDS_MAX: usize = 256;

/// An operation of an expression on strings.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Text {
    /// Converts to lower case: all letters of strings, only ASCII letters of byte strings.
    #[n(0)]
    Lower,
    /// Converts to upper case: all letters of strings, only ASCII letters of byte strings.
    #[n(1)]
    Upper,
    /// Removes white space at both ends.
    #[n(2)]
    Strip,
    /// Returns the length as `i64`.
    #[n(3)]
    Length(#[n(0)] TextUnit),
    /// Returns a part of the string.
    #[n(4)]
    Substr(#[n(0)] Substr),
    /// Returns whether a pattern matches: the whole string if the flag is `true`, otherwise any part of the
    /// string.
    #[n(5)]
    Matches(#[n(0)] String, #[n(1)] bool),
    /// Replaces matches of a pattern: every match if the flag is `true`, otherwise the first match.
    #[n(6)]
    Replace(#[n(0)] String, #[n(1)] String, #[n(2)] bool),
    /// Splits a scalar string into a vector.
    #[n(7)]
    Split(#[n(0)] Split),
    /// Joins the items along the last axis, with this separator between them.
    #[n(8)]
    JoinAxis(#[n(0)] String),
    /// Joins the operands item by item, with this separator between them.
    #[n(9)]
    Join(#[n(0)] String),
    /// Hashes the bytes of a string to a number below this limit.
    #[n(10)]
    HashBucket(#[n(0)] u64),
    /// Returns the index of a string in a vocabulary.
    #[n(11)]
    Lookup(#[n(0)] Lookup),
    /// Parses a decimal number of this dtype.
    #[n(12)]
    ToNumber(#[n(0)] DtypeField),
    /// Formats a number or boolean as text.
    #[n(13)]
    ToText,
}

/// The unit of lengths and positions in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum TextUnit {
    /// Lengths and positions count bytes.
    #[default]
    #[n(0)]
    Bytes,
    /// Lengths and positions count Unicode scalar values; for strings only, not for byte strings.
    #[n(1)]
    Chars,
}

/// Parameters of `substr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Substr {
    /// The position at which the part begins; a negative position counts from the end.
    #[n(0)]
    pub start: i64,
    /// The maximum length of the part.
    #[n(1)]
    pub length: u64,
    /// The unit of `start` and `length`.
    #[n(2)]
    pub unit: TextUnit,
}

/// Parameters of `split`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The text between two parts; `None` means white space of any length, which is also removed at the ends.
    #[n(0)]
    pub separator: Option<String>,
    /// The maximum number of splits, from the left; `None` means no limit.
    #[n(1)]
    pub cuts_max: Option<u64>,
}

/// Parameters of `lookup`: a vocabulary and the treatment of unknown words.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Lookup {
    /// The distinct words of the vocabulary. The index of the first word is 0.
    #[n(0)]
    pub words: Vec<ByteVec>,
    /// The number of every unknown word. If the number is `None` and `buckets` is 0, an unknown word is an
    /// error of the element.
    #[n(1)]
    pub other: Option<i64>,
    /// The number of hash buckets for unknown words; their numbers follow the indices of the words.
    #[n(2)]
    pub buckets: u64,
}

impl Text {
    /// Returns the name of the operation in messages.
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

    /// Returns whether the operation needs the cargo feature `text`.
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
