//! Payloads of variable-length items: n + 1 little-endian u64 offsets from the start of the data, the first 0
//! and none below the one before it, then the data. n is the product of the dimensions. Refuses to know
//! dtypes and memory.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Why a payload of variable-length items is not one, or cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StringsError {
    /// The writer of the payload lied about where items lie.
    #[error("offset {index} of the string payload does not lie in its data of {data_bytes} bytes, in order")]
    Offset {
        /// The index of the offset.
        index: usize,
        /// Bytes of data in the payload.
        data_bytes: usize,
    },
    /// The writer of the payload put bytes into it that are not UTF-8.
    #[error("string {index} is not UTF-8; declare the component as `bytes` or fix its producer")]
    Utf8 {
        /// The index of the item.
        index: usize,
    },
    /// The caller's items do not fill the payload as its shape says.
    #[error("{items} items of {data_bytes} bytes together do not fill a payload of {payload_bytes} bytes")]
    Fill {
        /// Items given.
        items: usize,
        /// Their bytes together.
        data_bytes: usize,
        /// Bytes of the payload.
        payload_bytes: usize,
    },
}

/// The items of a payload, its offsets checked.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    offsets: &'a [[u8; OFFSET_BYTES]],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Checks every offset of a payload of `items` items: O(items).
    ///
    /// # Errors
    /// [`StringsError::Offset`].
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

    /// Returns how many items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One item. Never panics, even when another process rewrites the payload under our eyes: then it may be
    /// cut short.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        let from = u64::from_le_bytes(*self.offsets.get(index)?);
        let upto = u64::from_le_bytes(*self.offsets.get(index.checked_add(1)?)?);
        Some(self.data.get(from as usize..upto as usize).unwrap_or_default())
    }

    /// Every item in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let strings = *self;
        (0..strings.len()).filter_map(move |index| strings.bytes(index))
    }

    /// Every item in order, as text; each is checked as it is reached.
    pub fn iter_str(&self) -> impl Iterator<Item = Result<&'a str, StringsError>> + use<'a> {
        let text = |(index, item)| std::str::from_utf8(item).map_err(|_| StringsError::Utf8 { index });
        self.iter().enumerate().map(text)
    }
}

/// Bytes of the items together: the `data_bytes` of a [`Shape`](crate::Shape).
#[must_use]
pub fn data_bytes(items: &[&[u8]]) -> u64 {
    items.iter().map(|item| item.len() as u64).sum()
}

/// Writes items into a payload that has exactly their size.
///
/// # Errors
/// [`StringsError::Fill`] when it has another; nothing is written then.
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

/// A u64, little-endian.
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
