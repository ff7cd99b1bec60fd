//! The messages to an executor and its answers, little-endian. `millstream/_wire.py` is the counterpart in
//! Python. An executor runs the user's code, so the lengths in its answers are checked before use. This file
//! does not know sockets and memory.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use millstream_element::Dtype;
use millstream_pipeline::exec::{ExecError, Tensor, Value};

/// Maximum number of data bytes in a datagram. More data is passed in a region.
pub(super) const INLINE_BYTES_MAX: usize = 16 << 10;
/// The alignment of components in a region, in bytes.
const ALIGNMENT: u64 = 64;
/// Maximum number of dimensions of a tensor, equal to the limit of elements.
const RANK_MAX: usize = 16;

const CALL: u8 = 1;
const REGION: u8 = 2;
const NEXT: u8 = 3;
const IN_REGION: u8 = 1;

/// An answer of an executor.
#[derive(Debug)]
pub(super) enum Answer<'d> {
    /// The executor has loaded the code.
    Ready,
    /// The tensors of the result, with their data in the datagram.
    Result(Vec<Described>, &'d [u8]),
    /// The tensors of the result, with their data in the region.
    ResultInRegion(Vec<Described>),
    /// The result has this number of bytes, and needs a region.
    Need(u64),
    /// The user's code raised an exception: its message, and its traceback.
    Raised { said: String, traceback: String },
    /// The iterable is exhausted.
    End,
}

/// The description of one tensor of a result.
#[derive(Debug)]
pub(super) struct Described {
    dtype: Dtype,
    dims: Vec<u64>,
    bytes: u64,
}

/// The number and the size of a region, as in a datagram.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RegionName {
    pub(super) id: u32,
    pub(super) bytes: u64,
}

/// The input of a call: its tensors and their data.
#[derive(Debug)]
pub(super) struct Input {
    tensors: Vec<Tensor>,
    data: Vec<Bytes>,
}

impl Input {
    /// Converts an element to the input of a call.
    ///
    /// # Errors
    /// Returns the failure of a deferred computation in the element.
    pub(super) fn new(value: &Value) -> Result<Input, ExecError> {
        let tensors: Result<Vec<Tensor>, ExecError> = value.iter().map(Tensor::settled).collect();
        let tensors = tensors?;
        let data = tensors.iter().map(data).collect();
        Ok(Input { tensors, data })
    }

    /// Returns whether the data is too large for a datagram and needs a region.
    pub(super) fn needs_region(&self) -> bool {
        self.data.iter().map(Bytes::len).sum::<usize>() > INLINE_BYTES_MAX
    }

    /// Returns the number of bytes that the data takes in a region.
    pub(super) fn region_bytes(&self) -> u64 {
        places(self.data.iter().map(|data| data.len() as u64)).1
    }

    /// Writes the data to a region of at least [`Input::region_bytes`].
    pub(super) fn write_to(&self, region: &mut [u8]) {
        let (places, _) = places(self.data.iter().map(|data| data.len() as u64));
        for (data, (at, len)) in self.data.iter().zip(places) {
            let range = at as usize..(at + len) as usize;
            if let Some(into) = region.get_mut(range) {
                into.copy_from_slice(data);
            }
        }
    }
}

/// Writes a call into `into`, with its input in the datagram or in the region. Without an input, writes a
/// request for the iterable's next element.
pub(super) fn call(
    input: Option<&Input>,
    region: RegionName,
    draw: u64,
    retired: &[u32],
    into: &mut Vec<u8>,
) {
    let tensors = input.map_or(&[][..], |input| &input.tensors);
    let in_region = input.is_some_and(Input::needs_region);
    into.clear();
    let kind = if input.is_some() { CALL } else { NEXT };
    into.extend([kind, if in_region { IN_REGION } else { 0 }]);
    // The numbers of components and of retired regions are small enough for these fields.
    into.extend((tensors.len() as u16).to_le_bytes());
    named(region, into);
    into.extend(draw.to_le_bytes());
    into.extend((retired.len() as u32).to_le_bytes());
    retired.iter().for_each(|id| into.extend(id.to_le_bytes()));
    let Some(input) = input else {
        return;
    };
    for (tensor, data) in input.tensors.iter().zip(&input.data) {
        into.push(tensor.dims().len() as u8);
        into.extend((data.len() as u64).to_le_bytes());
        tensor
            .dims()
            .iter()
            .for_each(|dim| into.extend(dim.to_le_bytes()));
    }
    if !in_region {
        input.data.iter().for_each(|data| into.extend_from_slice(data));
    }
}

/// Writes the message that provides a region for a waiting result.
pub(super) fn region(region: RegionName, into: &mut Vec<u8>) {
    into.clear();
    into.extend([REGION, 0, 0, 0]);
    named(region, into);
}

fn named(region: RegionName, into: &mut Vec<u8>) {
    into.extend(region.id.to_le_bytes());
    into.extend(region.bytes.to_le_bytes());
}

/// Returns the data of a settled tensor: its items, or for strings the lengths of all items followed by their
/// bytes.
fn data(tensor: &Tensor) -> Bytes {
    if tensor.dtype().item_bytes().is_some() {
        return Bytes::copy_from_slice(tensor.contiguous().unwrap_or_default());
    }
    let (mut lengths, mut text) = (Vec::new(), Vec::new());
    tensor.for_each_string(&mut |item| {
        lengths.extend((item.len() as u32).to_le_bytes());
        text.extend_from_slice(item);
    });
    lengths.extend_from_slice(&text);
    lengths.into()
}

/// Returns the offset and size of each component in a region, and the end of the last component.
fn places(sizes: impl Iterator<Item = u64>) -> (Vec<(u64, u64)>, u64) {
    let mut end = 0u64;
    let places = sizes.map(|size| {
        let at = end.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        end = at.saturating_add(size);
        (at, size)
    });
    (places.collect(), end)
}

/// Reads an answer.
///
/// # Errors
/// Returns a description of the fault in the answer.
pub(super) fn answer(datagram: &[u8]) -> Result<Answer<'_>, String> {
    let mut rest = Rest(datagram);
    Ok(match rest.number::<1>()? {
        1 => Answer::Ready,
        2 => {
            let in_region = rest.number::<1>()? == u64::from(IN_REGION);
            let count = rest.number::<2>()?;
            let described: Result<Vec<_>, String> = (0..count).map(|_| described(&mut rest)).collect();
            if in_region {
                Answer::ResultInRegion(described?)
            } else {
                Answer::Result(described?, rest.0)
            }
        }
        3 => Answer::Need(rest.number::<8>()?),
        4 => {
            let length = rest.number::<4>()? as usize;
            let said = text(rest.take(length)?);
            Answer::Raised {
                said,
                traceback: text(rest.0),
            }
        }
        5 => Answer::End,
        other => return Err(format!("unknown kind {other}")),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn described(rest: &mut Rest<'_>) -> Result<Described, String> {
    let code = rest.number::<1>()? as u8;
    let dtype = Dtype::from_code(code).ok_or_else(|| format!("unknown dtype {code}"))?;
    let rank = rest.number::<1>()? as usize;
    if rank > RANK_MAX {
        return Err(format!("expected at most {RANK_MAX} dimensions, found {rank}"));
    }
    let bytes = rest.number::<8>()?;
    let dims: Result<Vec<u64>, String> = (0..rank).map(|_| rest.number::<8>()).collect();
    Ok(Described {
        dtype,
        dims: dims?,
        bytes,
    })
}

/// Returns the offset and size of each tensor's data in the region.
pub(super) fn region_places(described: &[Described]) -> Vec<(u64, u64)> {
    places(described.iter().map(|tensor| tensor.bytes)).0
}

/// Makes the tensors of a result from the data in the datagram.
///
/// # Errors
/// Returns a description of the fault in the result.
pub(super) fn inline_value(described: &[Described], data: &[u8]) -> Result<Value, String> {
    let mut rest = Rest(data);
    let tensors = described
        .iter()
        .map(|tensor| made(tensor, Bytes::copy_from_slice(rest.take(tensor.bytes as usize)?)));
    tensors.collect()
}

/// Makes the tensors of a result from the data of their regions.
///
/// # Errors
/// Returns a description of the fault in the result.
pub(super) fn value(described: &[Described], data: Vec<Bytes>) -> Result<Value, String> {
    described
        .iter()
        .zip(data)
        .map(|(tensor, data)| made(tensor, data))
        .collect()
}

fn made(described: &Described, data: Bytes) -> Result<Tensor, String> {
    let Described { dtype, dims, .. } = described;
    if dtype.item_bytes().is_some() {
        return Tensor::fixed(*dtype, dims, data);
    }
    let count = dims
        .iter()
        .try_fold(1u64, |product, dim| product.checked_mul(*dim));
    let head = count.and_then(|count| count.checked_mul(4));
    let (lengths, text) = head
        .and_then(|head| data.split_at_checked(usize::try_from(head).ok()?))
        .ok_or_else(|| {
            format!(
                "expected the lengths of the strings of {dtype}{dims:?}, found {} bytes",
                data.len()
            )
        })?;
    let mut rest = Rest(text);
    // Each string is copied, because strings are small and even a small view would hold a whole region.
    let items = lengths.chunks_exact(4).map(|length| {
        let length = length
            .iter()
            .rev()
            .fold(0usize, |number, byte| number << 8 | usize::from(*byte));
        let item = rest.take(length)?;
        if *dtype == Dtype::String && std::str::from_utf8(item).is_err() {
            return Err("a string that is not UTF-8".to_owned());
        }
        Ok(Bytes::copy_from_slice(item))
    });
    Tensor::strings(*dtype, dims, items.collect::<Result<_, String>>()?)
}

/// The bytes that are not read yet.
struct Rest<'d>(&'d [u8]);

impl<'d> Rest<'d> {
    fn take(&mut self, count: usize) -> Result<&'d [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("expected {count} bytes, found {}", self.0.len()))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Result<u64, String> {
        let bytes = self.take(BYTES)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result(dtype: Dtype, dims: &[u64], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 1, 0, dtype.code(), dims.len() as u8];
        bytes.extend((data.len() as u64).to_le_bytes());
        dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes.extend_from_slice(data);
        bytes
    }

    fn read(datagram: &[u8]) -> Result<Value, String> {
        match answer(datagram)? {
            Answer::Result(described, data) => inline_value(&described, data),
            other @ (Answer::Ready
            | Answer::ResultInRegion(_)
            | Answer::Need(_)
            | Answer::Raised { .. }
            | Answer::End) => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn results_of_numbers_and_text_are_read() {
        let numbers = read(&result(Dtype::I16, &[2], &[1, 0, 2, 0])).unwrap();
        assert_eq!(
            (numbers[0].dims(), numbers[0].contiguous()),
            (&[2][..], Some(&[1, 0, 2, 0][..]))
        );
        let text = read(&result(
            Dtype::String,
            &[2],
            &[1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', b'c'],
        ))
        .unwrap();
        let mut items = Vec::new();
        text[0].for_each_string(&mut |item| items.push(item.to_vec()));
        assert_eq!(items, [b"a".to_vec(), b"bc".to_vec()]);
    }

    #[test]
    fn inconsistent_lengths_are_refused() {
        let wrong = [
            result(Dtype::I16, &[3], &[1, 0, 2, 0]),
            result(Dtype::String, &[2], &[1, 0, 0, 0]),
            result(Dtype::String, &[1], &[9, 0, 0, 0, b'a']),
            result(Dtype::String, &[1], &[1, 0, 0, 0, 0xff]),
            result(Dtype::String, &[u64::MAX, 2], &[]),
            vec![2, 0, 1, 0, 200, 0],
            vec![2, 0, 1, 0, 1, 17],
            vec![9],
            vec![],
        ];
        for datagram in wrong {
            assert!(read(&datagram).is_err(), "{datagram:?}");
        }
    }

    #[test]
    fn a_call_leaves_much_to_the_region() {
        let small = Input::new(&Value::from_iter([Tensor::i64(7), Tensor::string("ab")])).unwrap();
        let mut datagram = Vec::new();
        call(Some(&small), RegionName::default(), 5, &[3], &mut datagram);
        assert_eq!(datagram[..4], [CALL, 0, 2, 0]);
        assert!(datagram.ends_with(&[7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b']));
        let items = vec![1; INLINE_BYTES_MAX + 1];
        let large = Tensor::fixed(Dtype::U8, &[items.len() as u64], items).unwrap();
        let large = Input::new(&Value::from_iter([Tensor::i64(7), large])).unwrap();
        assert!(large.needs_region());
        let mut region = vec![0; large.region_bytes() as usize];
        large.write_to(&mut region);
        assert_eq!((region[0], region[63], region[64]), (7, 0, 1));
    }

    #[test]
    fn an_empty_call_does_not_count() {
        let (nothing, mut datagram) = (Input::new(&Value::new()).unwrap(), Vec::new());
        call(Some(&nothing), RegionName::default(), 0, &[], &mut datagram);
        assert_eq!(datagram[..4], [CALL, 0, 0, 0]);
        call(None, RegionName::default(), 0, &[], &mut datagram);
        assert_eq!(datagram[..4], [NEXT, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange_to_be_read(datagram in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&datagram);
        }
    }
}
