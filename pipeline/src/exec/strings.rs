//! The items of a string tensor, in one of two forms: a handle for each string, or Arrow's layout. Arrow's
//! layout serves strings for which a handle each would cost more than reading them. This module does not know
//! tensors.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// An ordered list of strings. Clones share the strings.
#[derive(Debug, Clone)]
pub struct Strings(Form);

#[derive(Debug, Clone)]
enum Form {
    Each(Arc<[Bytes]>),
    /// The strings in Arrow's layout. An `Arc` keeps this variant small, because every tensor has the size of
    /// its largest variant.
    Packed(Arc<Packed>),
}

/// Strings side by side in one buffer, with the place at which each string begins.
#[derive(Debug, Clone)]
struct Packed {
    bytes: Bytes,
    /// The place at which each string begins, and the place at which the last string ends. Each place has
    /// `width` bytes, little-endian.
    begins: Bytes,
    width: usize,
}

impl Strings {
    /// Returns the strings that are located in `bytes` one after the other. `begins` has a signed,
    /// little-endian integer of `width` bytes for the place at which each string begins. One more integer
    /// states where the last string ends. Returns `None` if `width` is not 4 or 8, or if `begins` has a wrong
    /// length.
    pub fn packed(bytes: Bytes, begins: Bytes, width: usize) -> Option<Strings> {
        let fits = matches!(width, 4 | 8) && !begins.is_empty() && begins.len().is_multiple_of(width);
        fits.then(|| Strings(Form::Packed(Arc::new(Packed { bytes, begins, width }))))
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Each(items) => items.len(),
            Form::Packed(packed) => packed.begins.len() / packed.width - 1,
        }
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the string at `index`. The result shares the string's bytes.
    pub fn get(&self, index: usize) -> Option<Bytes> {
        match &self.0 {
            Form::Each(items) => items.get(index).cloned(),
            Form::Packed(packed) => packed.range(index).map(|range| packed.bytes.slice(range)),
        }
    }

    /// Returns a view of the bytes of the string at `index`.
    pub fn view(&self, index: usize) -> Option<&[u8]> {
        match &self.0 {
            Form::Each(items) => items.get(index).map(|item| &item[..]),
            Form::Packed(packed) => packed.bytes.get(packed.range(index)?),
        }
    }

    /// Returns an iterator over the bytes of each string.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        // A string whose places are outside of the buffer, as a corrupt file may state, counts as empty.
        (0..self.len()).map(|index| self.view(index).unwrap_or_default())
    }

    /// Returns an iterator over handles that share the bytes of each string.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = Bytes> + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Returns the strings in `range`, or `None` if `range` ends beyond the last string.
    pub fn slice(&self, range: Range<usize>) -> Option<Strings> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        Some(Strings(match &self.0 {
            Form::Each(items) => Form::Each(items.get(range)?.into()),
            Form::Packed(packed) => {
                let begins = range.start * packed.width..(range.end + 1) * packed.width;
                Form::Packed(Arc::new(Packed {
                    begins: packed.begins.slice(begins),
                    ..Packed::clone(packed)
                }))
            }
        }))
    }

    /// Returns the approximate number of bytes that the strings keep alive, for a byte budget.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Form::Each(items) => items.iter().map(|item| item.len() + size_of::<Bytes>()).sum(),
            Form::Packed(packed) => packed.span().len() + packed.begins.len(),
        }
    }

    /// Returns the total number of bytes of all strings.
    pub fn size_bytes(&self) -> usize {
        match &self.0 {
            Form::Each(items) => items.iter().map(Bytes::len).sum(),
            Form::Packed(packed) => packed.span().len(),
        }
    }
}

impl From<Vec<Bytes>> for Strings {
    fn from(items: Vec<Bytes>) -> Strings {
        Strings(Form::Each(items.into()))
    }
}

impl Packed {
    /// Returns the range of the string at `index`, if the range is within the bytes.
    fn range(&self, index: usize) -> Option<Range<usize>> {
        let range = self.begin(index)?..self.begin(index.checked_add(1)?)?;
        (range.start <= range.end && range.end <= self.bytes.len()).then_some(range)
    }

    /// Returns the range of all strings.
    fn span(&self) -> Range<usize> {
        let last = self.begins.len() / self.width - 1;
        let end = self.begin(last).unwrap_or(0).min(self.bytes.len());
        self.begin(0).unwrap_or(0).min(end)..end
    }

    fn begin(&self, index: usize) -> Option<usize> {
        let at = index.checked_mul(self.width)?;
        let begin = self.begins.get(at..at.checked_add(self.width)?)?;
        match begin.try_into() {
            Ok(narrow) => usize::try_from(i32::from_le_bytes(narrow)).ok(),
            Err(_) => usize::try_from(i64::from_le_bytes(begin.try_into().ok()?)).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_testkit::rounds;
    use proptest::prelude::*;

    use super::*;

    fn packed(items: &[Vec<u8>], before: usize, width: usize) -> Strings {
        let mut bytes = vec![b'?'; before];
        let mut begins = Vec::new();
        let place = |at: usize| match width {
            4 => (at as i32).to_le_bytes().to_vec(),
            _ => (at as i64).to_le_bytes().to_vec(),
        };
        for item in items {
            begins.extend(place(bytes.len()));
            bytes.extend(item);
        }
        begins.extend(place(bytes.len()));
        bytes.extend(b"!!");
        Strings::packed(bytes.into(), begins.into(), width).unwrap()
    }

    proptest! {
        #![proptest_config(rounds(64))]

        #[test]
        fn both_forms_hold_the_same_strings(
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..9),
            before in 0usize..4,
            is_wide: bool,
            cut in (0usize..10, 0usize..10),
        ) {
            let each = Strings::from(items.iter().map(|item| Bytes::copy_from_slice(item)).collect::<Vec<_>>());
            for strings in [packed(&items, before, if is_wide { 8 } else { 4 }), each] {
                let views = |strings: &Strings| strings.iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
                prop_assert_eq!(strings.len(), items.len());
                prop_assert_eq!(&views(&strings), &items);
                prop_assert_eq!(strings.handles().map(|item| item.to_vec()).collect::<Vec<_>>(), items.clone());
                prop_assert_eq!(strings.size_bytes(), items.iter().map(Vec::len).sum::<usize>());
                prop_assert_eq!(strings.get(items.len()), None);
                let expected = items.get(cut.0..cut.1).map(<[Vec<u8>]>::to_vec);
                prop_assert_eq!(strings.slice(cut.0..cut.1).map(|part| views(&part)), expected);
            }
        }

        #[test]
        fn invalid_places_hold_and_end_nothing(
            begins in prop::collection::vec(any::<i32>(), 1..9),
            bytes in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let begins: Vec<u8> = begins.iter().flat_map(|begin| begin.to_le_bytes()).collect();
            let strings = Strings::packed(bytes.clone().into(), begins.into(), 4).unwrap();
            for item in strings.iter().chain(strings.handles().collect::<Vec<_>>().iter().map(|item| &item[..])) {
                prop_assert!(item.len() <= bytes.len());
            }
            prop_assert!(strings.size_bytes() <= bytes.len());
        }
    }
}
