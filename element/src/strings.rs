//! The payload format of variable-length items: n + 1 little-endian u64 offsets, then the data. n is the
//! product of the dimensions. Offsets are relative to the start of the data; the first is 0, and each is at
//! least the previous offset. This file does not know dtypes and memory.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The error for a payload of variable-length items that is invalid or cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StringsError {
    /// An offset in the payload is out of order or outside the data.
    #[error("offset {index} of the string payload is out of order or outside the {data_bytes} bytes of data")]
    Offset {
        /// The index of the offset.
        index: usize,
        /// Size of the payload's data in bytes.
        data_bytes: usize,
    },
    /// An item of the payload is not valid UTF-8.
    #[error("string {index} is not UTF-8; declare the component as `bytes` or fix its producer")]
    Utf8 {
        /// The index of the item.
        index: usize,
    },
    /// The caller's items do not have the size of the payload.
    #[error(
        "expected items that fill a payload of {payload_bytes} bytes, found {items} items with {data_bytes} bytes of data"
    )]
    Fill {
        /// The number of items.
        items: usize,
        /// Total size of the items in bytes.
        data_bytes: usize,
        /// Size of the payload in bytes.
        payload_bytes: usize,
    },
}

/// The items of a payload whose offsets were checked.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    offsets: &'a [[u8; OFFSET_BYTES]],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Opens a payload of `items` items, after a check of every offset. The cost is O(items).
    ///
    /// # Errors
    /// [`StringsError::Offset`] if an offset is out of order or outside the data.
    pub fn open(payload: &'a [u8], items: usize) -> Result<Strings<'a>, StringsError> {
        let (all, _) = payload.as_chunks::<OFFSET_BYTES>();
        let offsets = items.checked_add(1).and_then(|count| all.get(..count));
        let Some(offsets) = offsets else {
            return Err(StringsError::Offset {
                index: all.len(),
                data_bytes: 0,
            });
        };
        let data = &payload[offsets.len() * OFFSET_BYTES..];
        let data_bytes = data.len();
        let mut floor = 0;
        for (index, raw) in offsets.iter().enumerate() {
            let offset = u64::from_le_bytes(*raw);
            if offset < floor || offset > data_bytes as u64 || (index == 0 && offset != 0) {
                return Err(StringsError::Offset { index, data_bytes });
            }
            floor = offset;
        }
        Ok(Strings { offsets, data })
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns whether the payload has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one item. Never panics, even if another process rewrites the payload concurrently; the item
    /// may then be empty.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        let from = u64::from_le_bytes(*self.offsets.get(index)?);
        let upto = u64::from_le_bytes(*self.offsets.get(index.checked_add(1)?)?);
        Some(self.data.get(from as usize..upto as usize).unwrap_or_default())
    }

    /// Returns every item in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let strings = *self;
        (0..strings.len()).filter_map(move |index| strings.bytes(index))
    }

    /// Returns every item in order, as text. Each item is checked when the iterator reaches it.
    pub fn iter_str(&self) -> impl Iterator<Item = Result<&'a str, StringsError>> + use<'a> {
        let text = |(index, item)| std::str::from_utf8(item).map_err(|_| StringsError::Utf8 { index });
        self.iter().enumerate().map(text)
    }
}

/// Returns the total size of the items in bytes: the `data_bytes` of a [`Shape`](crate::Shape).
#[must_use]
pub fn data_bytes(items: &[&[u8]]) -> u64 {
    items.iter().map(|item| item.len() as u64).sum()
}

/// Writes items into a payload that has exactly their size.
///
/// # Errors
/// [`StringsError::Fill`] if the payload has another size. Writes nothing in this case.
pub fn write_strings(payload: &mut [u8], items: &[&[u8]]) -> Result<(), StringsError> {
    let (data_bytes, payload_bytes) = (data_bytes(items) as usize, payload.len());
    let offsets_bytes = (items.len() + 1) * OFFSET_BYTES;
    if offsets_bytes.checked_add(data_bytes) != Some(payload_bytes) {
        return Err(StringsError::Fill {
            items: items.len(),
            data_bytes,
            payload_bytes,
        });
    }
    let (offsets, mut data) = payload.split_at_mut(offsets_bytes);
    let (offsets, _) = offsets.as_chunks_mut::<OFFSET_BYTES>();
    let mut end = 0u64;
    offsets[0] = end.to_le_bytes();
    for (item, offset) in items.iter().zip(&mut offsets[1..]) {
        let (place, rest) = data.split_at_mut(item.len());
        place.copy_from_slice(item);
        data = rest;
        end += item.len() as u64;
        *offset = end.to_le_bytes();
    }
    Ok(())
}

/// Size in bytes of an offset, a little-endian u64.
const OFFSET_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(items: &[Vec<u8>]) -> Vec<u8> {
        let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        let mut payload = vec![0; (items.len() + 1) * 8 + data_bytes(&items) as usize];
        write_strings(&mut payload, &items).unwrap();
        payload
    }

    proptest! {
        #[test]
        fn items_come_back(items: Vec<Vec<u8>>) {
            let payload = written(&items);
            let strings = Strings::open(&payload, items.len()).unwrap();
            prop_assert_eq!(strings.len(), items.len());
            prop_assert!(strings.iter().eq(items.iter().map(Vec::as_slice)));
        }

        #[test]
        fn any_bytes_give_valid_items_or_an_error(payload: Vec<u8>, items in 0usize..20) {
            let Ok(strings) = Strings::open(&payload, items) else { return Ok(()) };
            let total: usize = strings.iter().map(<[u8]>::len).sum();
            prop_assert!(total <= payload.len());
            prop_assert_eq!(strings.iter_str().count(), items);
        }
    }

    #[test]
    fn lying_offsets_and_bad_text_are_told_apart() {
        let mut payload = written(&[b"ab".to_vec(), vec![0xff]]);
        let strings = Strings::open(&payload, 2).unwrap();
        let text: Vec<_> = strings.iter_str().collect();
        assert_eq!(text, [Ok("ab"), Err(StringsError::Utf8 { index: 1 })]);
        assert!(matches!(
            Strings::open(&payload, 100),
            Err(StringsError::Offset { .. })
        ));
        assert!(matches!(
            Strings::open(&payload, usize::MAX),
            Err(StringsError::Offset { .. })
        ));
        payload[16] = 4;
        assert_eq!(
            Strings::open(&payload, 2).unwrap_err(),
            StringsError::Offset {
                index: 2,
                data_bytes: 3
            }
        );
        payload[8] = 4;
        assert_eq!(
            Strings::open(&payload, 2).unwrap_err(),
            StringsError::Offset {
                index: 1,
                data_bytes: 3
            }
        );
        payload[0] = 1;
        assert_eq!(
            Strings::open(&payload, 2).unwrap_err(),
            StringsError::Offset {
                index: 0,
                data_bytes: 3
            }
        );
    }

    #[test]
    fn a_payload_of_another_size_is_refused() {
        let fault = write_strings(&mut [0; 17], &[b"ab"]).unwrap_err();
        assert_eq!(
            fault,
            StringsError::Fill {
                items: 1,
                data_bytes: 2,
                payload_bytes: 17
            }
        );
    }
}
