//! The wire format of protocol buffer messages: fields one after the other. This module knows no schema.

/// The fields of a message that are not read yet.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'b> {
    rest: &'b [u8],
}

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Content<'b> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(&'b [u8]),
}

impl<'b> Fields<'b> {
    pub(crate) fn of(message: &'b [u8]) -> Fields<'b> {
        Fields { rest: message }
    }

    /// Returns the number of the next field and its content.
    ///
    /// # Errors
    /// A text that states the fault of the message.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Content<'b>)>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.rest)?;
        let number = key >> 3;
        if number == 0 || key > u64::from(u32::MAX) {
            return Err("a field has an invalid number");
        }
        let content = match key & 7 {
            0 => Content::Varint(varint(&mut self.rest)?),
            1 => {
                self.take::<8>()?;
                Content::Fixed64
            }
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| CUT_OFF)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
                self.rest = rest;
                Content::Bytes(bytes)
            }
            5 => Content::Fixed32(self.take()?),
            _ => return Err("a field has an invalid wire type, or is a group"),
        };
        Ok(Some((number, content)))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(*bytes)
    }
}

const CUT_OFF: &str = "the message is truncated";

/// Removes a number of variable length from the front of `bytes`, and returns it.
pub(crate) fn varint(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        // Only one bit of the tenth byte fits into 64 bits.
        if index == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(if bytes.len() < 10 {
        CUT_OFF
    } else {
        "a number is longer than 64 bits"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_64_bits() {
        let read = |mut bytes: &[u8]| varint(&mut bytes);
        assert_eq!(read(&[0x96, 0x01]), Ok(150));
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(read(&most), Ok(u64::MAX));
        assert!(read(&[0xff; 10]).unwrap_err().contains("64 bits"));
        assert!(read(&[0x80]).unwrap_err().contains("truncated"));
    }

    #[test]
    fn messages_that_lie_are_refused() {
        let first = |message: &[u8]| Fields::of(message).next().map(|field| field.is_some());
        assert_eq!(first(&[]), Ok(false));
        assert_eq!(first(&[0x0a, 1, 7]), Ok(true));
        assert!(first(&[0x0a, 2, 7]).is_err());
        assert!(first(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
        assert!(first(&[0x02, 0]).is_err());
        assert!(first(&[0x0b]).is_err());
    }
}
