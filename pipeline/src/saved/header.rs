//! The header of a file of elements: the magic bytes `MSELEMNT`, the length of the header, the header as a
//! CBOR map, and its checksum.

use std::io::{self, Read, Write};

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

use crate::graph::{Packing, SpecField};

const MAGIC: &[u8; 8] = b"MSELEMNT";
/// The version of the format; no other version exists.
const VERSION: u32 = 1;
/// The maximum number of bytes of a header. A header consists mainly of a spec, which is far smaller.
const HEADER_BYTES_MAX: u32 = 16 << 20;

/// The header of a file of elements: the version, the compression and the spec of the elements.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Header {
    #[n(0)]
    version: u32,
    #[n(1)]
    pub(crate) packing: Packing,
    #[n(2)]
    spec: SpecField,
}

impl Header {
    pub(crate) fn new(spec: &ElementSpec, packing: Packing) -> Header {
        Header {
            version: VERSION,
            packing,
            spec: SpecField(spec.clone()),
        }
    }

    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.spec.0
    }

    /// Writes the header, and returns the number of bytes written.
    pub(super) fn write(&self, into: &mut impl Write) -> io::Result<u64> {
        let header = minicbor::to_vec(self).map_err(|error| io::Error::other(error.to_string()))?;
        let len = u32::try_from(header.len()).map_err(|_| io::Error::other("the spec is too large"))?;
        into.write_all(MAGIC)?;
        into.write_all(&len.to_le_bytes())?;
        into.write_all(&header)?;
        into.write_all(&crc32c::crc32c(&header).to_le_bytes())?;
        Ok(MAGIC.len() as u64 + 8 + u64::from(len))
    }

    /// Reads the header, and returns the header and the number of bytes read.
    pub(super) fn read(from: &mut impl Read) -> Result<(Header, u64), io::Error> {
        let mut magic = [0; 8];
        from.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(damaged("expected a file of elements, found other data"));
        }
        let len = number(from)?;
        if len > HEADER_BYTES_MAX {
            return Err(damaged(
                "the header of the file is damaged: its length exceeds the limit",
            ));
        }
        let mut header = vec![0; len as usize];
        from.read_exact(&mut header)?;
        if crc32c::crc32c(&header) != number(from)? {
            return Err(damaged("the header of the file is damaged: its checksum differs"));
        }
        let header: Header = minicbor::decode(&header).map_err(|error| damaged(&error.to_string()))?;
        if header.version != VERSION {
            let message = format!(
                "expected format version {VERSION}, found version {}",
                header.version
            );
            return Err(damaged(&message));
        }
        Ok((header, MAGIC.len() as u64 + 8 + u64::from(len)))
    }
}

pub(super) fn number(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

pub(super) fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}
