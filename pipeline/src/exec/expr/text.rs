//! Operations on strings, prepared once for all elements.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::Hasher;

use bytes::Bytes;
use half::{bf16, f16};
use millstream_element::Dtype;
use siphasher::sip::SipHasher24;

use crate::exec::value::{Dims, Tensor};
use crate::graph::{Lookup, Split, Substr, Text, TextUnit};

use super::items::{Item, bytes_of, items};
use super::kernel::Kernel;
use super::number::{no_number, with_number};
use super::strings::{items_of, joined, joined_along, mapped, numbered};

/// Maximum bytes of the automaton that is compiled from a pattern.
#[cfg(feature = "text")]
const PATTERN_BYTES_MAX: usize = 16 << 20;

/// Returns the kernel that computes `text` for strings of `dtype`.
///
/// # Errors
/// A text that states the reason: an invalid pattern, or a build without patterns.
pub(crate) fn kernel(text: &Text, dtype: Dtype) -> Result<Kernel, String> {
    let is_text = dtype == Dtype::String;
    Ok(match text.clone() {
        Text::Lower => {
            Box::new(move |given| mapped(given[0], dtype, |item| Ok(changed(item, is_text, Case::Lower))))
        }
        Text::Upper => {
            Box::new(move |given| mapped(given[0], dtype, |item| Ok(changed(item, is_text, Case::Upper))))
        }
        Text::Strip => Box::new(move |given| mapped(given[0], dtype, |item| Ok(stripped(item, is_text)))),
        Text::Length(unit) => Box::new(move |given| {
            numbered(given[0], Dtype::I64, |item, into| {
                (measured(item, unit)? as u64).write(into);
                Ok(())
            })
        }),
        Text::Substr(substr) => {
            Box::new(move |given| mapped(given[0], dtype, |item| part(item, substr, is_text)))
        }
        Text::Matches(pattern, full) => matches(&pattern, full)?,
        Text::Replace(pattern, rewrite, all) => replaced(&pattern, rewrite, all)?,
        Text::Split(split) => Box::new(move |given| {
            let item = items_of(given[0]);
            let parts = item.first().map(|item| parts(item, &split, is_text));
            let parts: Vec<Bytes> = parts.unwrap_or_default();
            Tensor::strings(dtype, &[parts.len() as u64], parts)
        }),
        Text::JoinAxis(separator) => Box::new(move |given| joined_along(given[0], &separator)),
        Text::Join(separator) => Box::new(move |given| joined(given, &separator)),
        Text::HashBucket(buckets) => Box::new(move |given| {
            numbered(given[0], Dtype::I64, |item, into| {
                bucket(item, buckets).write(into);
                Ok(())
            })
        }),
        Text::Lookup(lookup) => looked_up(lookup),
        Text::ToNumber(number) => Box::new(move |given| parsed(given[0], number.0)),
        Text::ToText => Box::new(|given| written(given[0])),
    })
}

#[derive(Clone, Copy)]
enum Case {
    Lower,
    Upper,
}

fn changed(item: &Bytes, is_text: bool, case: Case) -> Bytes {
    match (std::str::from_utf8(item), case) {
        (Ok(text), Case::Lower) if is_text => text.to_lowercase().into(),
        (Ok(text), Case::Upper) if is_text => text.to_uppercase().into(),
        (_, Case::Lower) => item.to_ascii_lowercase().into(),
        (_, Case::Upper) => item.to_ascii_uppercase().into(),
    }
}

fn stripped(item: &Bytes, is_text: bool) -> Bytes {
    match std::str::from_utf8(item) {
        Ok(text) if is_text => item.slice_ref(text.trim().as_bytes()),
        Ok(_) | Err(_) => item.slice_ref(item.trim_ascii()),
    }
}

fn measured(item: &[u8], unit: TextUnit) -> Result<usize, String> {
    match unit {
        TextUnit::Bytes => Ok(item.len()),
        TextUnit::Chars => Ok(utf8(item)?.chars().count()),
    }
}

fn utf8(item: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(item).map_err(|error| format!("a string is not UTF-8: {error}"))
}

/// Returns the part of `item` that `substr` selects.
fn part(item: &Bytes, substr: Substr, is_text: bool) -> Result<Bytes, String> {
    let length = measured(item, substr.unit)?;
    let from_end = if substr.start < 0 {
        substr.start.saturating_add(length as i64)
    } else {
        substr.start
    };
    let start = usize::try_from(from_end).ok().filter(|start| *start <= length);
    let start = start.ok_or_else(|| format!("place {} is outside of a string of {length}", substr.start))?;
    let most = usize::try_from(substr.length).unwrap_or(usize::MAX);
    let end = start.saturating_add(most).min(length);
    let (start, end) = match substr.unit {
        TextUnit::Bytes => (start, end),
        TextUnit::Chars => {
            let text = utf8(item)?;
            let place = |nth: usize| {
                text.char_indices()
                    .nth(nth)
                    .map_or(text.len(), |(place, _)| place)
            };
            (place(start), place(end))
        }
    };
    if is_text {
        let text = utf8(item)?;
        if !text.is_char_boundary(start) || !text.is_char_boundary(end) {
            return Err(
                "the substring would cut a character: count in characters, or cast to bytes".to_owned(),
            );
        }
    }
    Ok(item.slice(start..end))
}

/// Returns the parts into which `split` cuts `item`.
pub(crate) fn parts(item: &Bytes, split: &Split, is_text: bool) -> Vec<Bytes> {
    let cuts = split
        .cuts_max
        .map_or(usize::MAX, |cuts| usize::try_from(cuts).unwrap_or(usize::MAX));
    let mut parts = Vec::new();
    match &split.separator {
        Some(separator) => {
            let (mut rest, mut at) = (&item[..], 0);
            while parts.len() < cuts
                && let Some(found) = find(rest, separator.as_bytes())
            {
                parts.push(item.slice(at..at + found));
                at += found + separator.len();
                rest = &item[at..];
            }
            parts.push(item.slice(at..));
        }
        None => {
            let mut rest = item.clone();
            loop {
                rest = stripped_front(&rest, is_text);
                if rest.is_empty() {
                    break;
                }
                let end = if parts.len() < cuts {
                    word_end(&rest, is_text)
                } else {
                    rest.len()
                };
                parts.push(rest.split_to(end));
            }
        }
    }
    parts
}

fn find(item: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [byte] => item.iter().position(|other| other == byte),
        _ => item
            .windows(separator.len())
            .position(|window| window == separator),
    }
}

fn stripped_front(item: &Bytes, is_text: bool) -> Bytes {
    match std::str::from_utf8(item) {
        Ok(text) if is_text => item.slice_ref(text.trim_start().as_bytes()),
        Ok(_) | Err(_) => item.slice_ref(item.trim_ascii_start()),
    }
}

/// Returns the position of the first white space.
fn word_end(item: &[u8], is_text: bool) -> usize {
    let end = match std::str::from_utf8(item) {
        Ok(text) if is_text => text.find(char::is_whitespace),
        Ok(_) | Err(_) => item.iter().position(u8::is_ascii_whitespace),
    };
    end.unwrap_or(item.len())
}

/// Returns a number below `buckets`, which is equal for equal bytes on every machine.
pub(crate) fn bucket(item: &[u8], buckets: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0, 0);
    hasher.write(item);
    hasher.finish() % buckets.max(1)
}

fn looked_up(lookup: Lookup) -> Kernel {
    let words = lookup.words.iter().zip(0i64..);
    let numbers: HashMap<Vec<u8>, i64> = words.map(|(word, number)| (word.to_vec(), number)).collect();
    Box::new(move |given| {
        numbered(given[0], Dtype::I64, |item, into| {
            let number = match (numbers.get(item), lookup.other) {
                (Some(number), _) => *number,
                (None, Some(other)) => other,
                (None, None) if lookup.buckets > 0 => {
                    let hashed = bucket(item, lookup.buckets);
                    (numbers.len() as u64 + hashed).cast_signed()
                }
                (None, None) => {
                    return Err(format!("{:?} is not in the vocabulary", shown(item)));
                }
            };
            number.write(into);
            Ok(())
        })
    })
}

/// Returns a prefix of `item` for messages.
fn shown(item: &[u8]) -> String {
    String::from_utf8_lossy(&item[..item.len().min(32)]).into_owned()
}

fn parsed(of: &Tensor, dtype: Dtype) -> Result<Tensor, String> {
    numbered(of, dtype, |item, into| {
        let text = std::str::from_utf8(item).map(str::trim);
        let text = text.map_err(|_| format!("expected a number, found {:?}", shown(item)))?;
        number_of(text, dtype, into)
            .ok_or_else(|| format!("expected a number of {dtype}, found {:?}", shown(item)))
    })
}

/// Parses `text` as a number of `dtype` and writes it to `into`.
pub(crate) fn number_of(text: &str, dtype: Dtype, into: &mut [u8]) -> Option<()> {
    macro_rules! number {
        ($number:ty) => {
            text.parse::<$number>().ok()?.write(into)
        };
    }
    match dtype {
        Dtype::I8 => number!(i8),
        Dtype::I16 => number!(i16),
        Dtype::I32 => number!(i32),
        Dtype::I64 => number!(i64),
        Dtype::U8 => number!(u8),
        Dtype::U16 => number!(u16),
        Dtype::U32 => number!(u32),
        Dtype::U64 => number!(u64),
        Dtype::F16 => f16::from_f64(text.parse().ok()?).write(into),
        Dtype::Bf16 => bf16::from_f64(text.parse().ok()?).write(into),
        Dtype::F32 => number!(f32),
        Dtype::F64 => number!(f64),
        Dtype::Bool
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => return None,
    }
    Some(())
}

fn written(of: &Tensor) -> Result<Tensor, String> {
    let dtype = of.dtype();
    let bytes = bytes_of(of)?;
    let texts: Vec<Bytes> = if dtype == Dtype::Bool {
        items::<bool>(bytes)
            .map(|truth| truth.to_string().into())
            .collect()
    } else {
        with_number!(dtype, T => items::<T>(bytes).map(|item| {
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = write!(text, "{item:?}");
            text.into()
        }).collect(), return Err(no_number(dtype)))
    };
    Tensor::strings(Dtype::String, &Dims::from_slice(of.dims()), texts)
}

#[cfg(feature = "text")]
fn matches(pattern: &str, full: bool) -> Result<Kernel, String> {
    let pattern = compiled(&if full {
        format!("^(?:{pattern})$")
    } else {
        pattern.to_owned()
    })?;
    Ok(Box::new(move |given| {
        numbered(given[0], Dtype::Bool, |item, into| {
            pattern.is_match(utf8(item)?).write(into);
            Ok(())
        })
    }))
}

#[cfg(feature = "text")]
fn replaced(pattern: &str, rewrite: String, all: bool) -> Result<Kernel, String> {
    let pattern = compiled(pattern)?;
    let most = if all { 0 } else { 1 };
    Ok(Box::new(move |given| {
        mapped(given[0], Dtype::String, |item| {
            Ok(match pattern.replacen(utf8(item)?, most, rewrite.as_str()) {
                std::borrow::Cow::Borrowed(_) => item.clone(),
                std::borrow::Cow::Owned(text) => text.into(),
            })
        })
    }))
}

#[cfg(feature = "text")]
fn compiled(pattern: &str) -> Result<regex::Regex, String> {
    let pattern = regex::RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    pattern.map_err(|error| format!("invalid pattern: {error}"))
}

#[cfg(not(feature = "text"))]
fn matches(_: &str, _: bool) -> Result<Kernel, String> {
    Err(no_patterns())
}

#[cfg(not(feature = "text"))]
fn replaced(_: &str, _: String, _: bool) -> Result<Kernel, String> {
    Err(no_patterns())
}

#[cfg(not(feature = "text"))]
fn no_patterns() -> String {
    "patterns are not built in: build with the feature \"text\"".to_owned()
}
