//! The items of a string tensor: a handle each, or as Arrow lays them out, where making a handle of each
//! would cost more than reading them. Which tensor they are of is not known here.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Strings, in order. Clones share them.
#[derive(Debug, Clone)]
pub struct Strings(Form);

#[derive(Debug, Clone)]
enum Form {
    Each(Arc<[Bytes]>),
    /// Behind a pointer: every tensor on its way has the room for its largest form.
    Packed(Arc<Packed>),
}

/// Strings side by side, and where each begins and the last one ends.
#[derive(Debug, Clone)]
struct Packed {
    bytes: Bytes,
    /// One more than there are strings, each of `width` bytes, little-endian.
    begins: Bytes,
    width: usize,
}

impl Strings {
    /// Strings that lie in `bytes` one behind the other. `begins` says where: 4 (`width`) or 8 bytes for
    /// each, signed and little-endian, and once more for where the last one ends. `None` if that cannot be.
    pub fn packed(bytes: Bytes, begins: Bytes, width: usize) -> Option<Strings> {
        let fits = matches!(width, 4 | 8) && !begins.is_empty() && begins.len().is_multiple_of(width);
        fits.then(|| Strings(Form::Packed(Arc::new(Packed { bytes, begins, width }))))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Each(items) => items.len(),
            Form::Packed(packed) => packed.begins.len() / packed.width - 1,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them, which shares its bytes.
    pub fn get(&self, index: usize) -> Option<Bytes> {
        match &self.0 {
            Form::Each(items) => items.get(index).cloned(),
            Form::Packed(packed) => packed.range(index).map(|range| packed.bytes.slice(range)),
        }
    }

    /// The bytes of one of them.
    pub fn view(&self, index: usize) -> Option<&[u8]> {
        match &self.0 {
            Form::Each(items) => items.get(index).map(|item| &item[..]),
            Form::Packed(packed) => packed.bytes.get(packed.range(index)?),
        }
    }

    /// The bytes of each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        // Where a file says that a string lies outside of the others there is none.
        (0..self.len()).map(|index| self.view(index).unwrap_or_default())
    }

    /// Each, sharing its bytes.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = Bytes> + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Those in `range`. `None` if there are not as many.
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

    /// Returns the bytes that the strings keep alive, roughly, for a byte budget.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Form::Each(items) => items.iter().map(|item| item.len() + size_of::<Bytes>()).sum(),
            Form::Packed(packed) => packed.span().len() + packed.begins.len(),
        }
    }

    /// Their bytes, all in all.
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
    /// Returns the range of the string `index`, if it lies within the bytes.
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
