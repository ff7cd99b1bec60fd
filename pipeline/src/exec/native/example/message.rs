//! The messages `Example`, `SequenceExample`, `Features`, `FeatureLists`, `FeatureList` and `Feature` of
//! TensorFlow.

use super::column::Column;
use super::wire::{Content, Fields, varint};

/// Calls `entry` with the key and the value of every entry of a map. The map is field 1 of the message in
/// field `within` of `outer`. If a key occurs twice, `entry` is called twice, and the last value counts.
pub(crate) fn entries<'b>(
    outer: &'b [u8],
    within: u64,
    mut entry: impl FnMut(&'b [u8], &'b [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut outer = Fields::of(outer);
    while let Some((number, content)) = outer.next()? {
        let Some(map) = message(number, content, within)? else {
            continue;
        };
        let mut map = Fields::of(map);
        while let Some((number, content)) = map.next()? {
            let Some(pair) = message(number, content, 1)? else {
                continue;
            };
            let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
            let mut pair = Fields::of(pair);
            while let Some((number, content)) = pair.next()? {
                match (number, content) {
                    (1, Content::Bytes(bytes)) => key = bytes,
                    (2, Content::Bytes(bytes)) => value = bytes,
                    (1 | 2, _) => {
                        return Err("expected bytes in an entry of a map, found a number".to_owned());
                    }
                    (_, _) => {}
                }
            }
            entry(key, value)?;
        }
    }
    Ok(())
}

/// Calls `feature` with every feature of a `FeatureList`.
pub(crate) fn features<'b>(
    list: &'b [u8],
    mut feature: impl FnMut(&'b [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut list = Fields::of(list);
    while let Some((number, content)) = list.next()? {
        if let Some(bytes) = message(number, content, 1)? {
            feature(bytes)?;
        }
    }
    Ok(())
}

/// Returns the nested message if the field has the number `wanted`, or `None` for any other field.
fn message(number: u64, content: Content<'_>, wanted: u64) -> Result<Option<&[u8]>, &'static str> {
    match (number == wanted, content) {
        (true, Content::Bytes(bytes)) => Ok(Some(bytes)),
        (true, Content::Varint(_) | Content::Fixed32(_) | Content::Fixed64) => {
            Err("expected a nested message, found a number")
        }
        (false, _) => Ok(None),
    }
}

/// Returns whether a `Feature` holds a list. A `Feature` without a list counts as missing.
pub(crate) fn is_set(feature: &[u8]) -> Result<bool, &'static str> {
    let mut fields = Fields::of(feature);
    while let Some((number, _)) = fields.next()? {
        if (1..=3).contains(&number) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds the values of a `Feature` to `column`, and returns the number of values.
pub(crate) fn values<'b>(feature: &'b [u8], column: &mut Column<'b>) -> Result<u64, String> {
    const KINDS: [&str; 4] = ["nothing", "byte strings", "floats", "integers"];
    let wanted = column.kind();
    let mut count = 0;
    let mut lists = Fields::of(feature);
    while let Some((number, content)) = lists.next()? {
        if !(1..=3).contains(&number) {
            continue;
        }
        if number != wanted {
            return Err(format!(
                "expected {1} as declared, found {0}",
                KINDS[number as usize], KINDS[wanted as usize]
            ));
        }
        let list = message(number, content, wanted)?.unwrap_or_default();
        let mut list = Fields::of(list);
        while let Some((number, content)) = list.next()? {
            if number == 1 {
                count += list_values(wanted, content, column)?;
            }
        }
    }
    Ok(count)
}

/// Adds the values in one field of a list: one number or several packed numbers, or one string.
fn list_values<'b>(kind: u64, content: Content<'b>, column: &mut Column<'b>) -> Result<u64, String> {
    match (kind, content) {
        (1, Content::Bytes(bytes)) => {
            column.push_item(bytes)?;
            Ok(1)
        }
        (2, Content::Fixed32(float)) => {
            column.extend(&float);
            Ok(1)
        }
        (2, Content::Bytes(packed)) => {
            if !packed.len().is_multiple_of(4) {
                return Err("packed floats are truncated".to_owned());
            }
            column.extend(packed);
            Ok(packed.len() as u64 / 4)
        }
        (3, Content::Varint(integer)) => {
            column.extend(&integer.to_le_bytes());
            Ok(1)
        }
        (3, Content::Bytes(mut packed)) => {
            let mut count = 0;
            while !packed.is_empty() {
                column.extend(&varint(&mut packed)?.to_le_bytes());
                count += 1;
            }
            Ok(count)
        }
        (_, _) => Err("a value has another type than its list".to_owned()),
    }
}
