//! A shard: the positions of its samples, the description of their columns, and the samples themselves. A
//! shard is either compressed as a whole, or not compressed.

use std::io::Read;

use bytes::Bytes;
use serde_json::Value as Json;

use crate::exec::format::reader::Fault;
use crate::graph::RECORD_BYTES_MAX;
use crate::storage::Object;

use super::encoding::Encoding;

/// Maximum bytes of the description of the columns.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Number of bytes that are read at once, unless a sample is larger.
const BLOCK_BYTES: u64 = 1 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A shard whose samples can be read.
pub(crate) struct Shard {
    bytes: Source,
    /// The start of each sample, and the end of the last sample.
    begins: Vec<u32>,
    pub(crate) columns: Vec<MdsColumn>,
}

/// A column of a shard.
pub(crate) struct MdsColumn {
    pub(crate) name: String,
    /// The name of the encoding, as the shard states it.
    pub(crate) encoding: String,
    /// The number of bytes of a value, if all values have the same size.
    size: Option<u32>,
}

/// The source of a shard's bytes.
enum Source {
    /// A file, the start of a block of the file, and the block itself in memory.
    File(Object, u64, Bytes),
    Memory(Bytes),
}

impl Shard {
    pub(crate) fn open(file: Object) -> Result<Shard, Fault> {
        let mut bytes = Source::File(file, 0, Bytes::new());
        if bytes.range(0, 4)? == ZSTD_MAGIC[..] {
            bytes = bytes.decompressed()?;
        }
        let count = u64::from(word(&bytes.range(0, 4)?));
        let table = bytes.range(4, 4 + (count + 1) * 4)?;
        let begins: Vec<u32> = table.chunks_exact(4).map(word).collect();
        let (Some(first), Some(last)) = (begins.first(), begins.last()) else {
            return Err(Fault::from("invalid MDS shard: the table of samples is empty"));
        };
        let config_at = 8 + count * 4;
        if u64::from(*first) < config_at || !begins.is_sorted() {
            return Err(Fault::from(
                "invalid MDS shard: the offsets of the samples are not in ascending order",
            ));
        }
        if u64::from(*last) > bytes.len() {
            return Err(Fault::from(format!(
                "the shard is truncated: expected {last} bytes, found {}",
                bytes.len()
            )));
        }
        if u64::from(*first) - config_at > CONFIG_BYTES_MAX {
            return Err(Fault::from(format!(
                "the description of the columns exceeds {CONFIG_BYTES_MAX} bytes"
            )));
        }
        let columns = columns(&bytes.range(config_at, u64::from(*first))?)?;
        Ok(Shard {
            bytes,
            begins,
            columns,
        })
    }

    pub(crate) fn count(&self) -> u64 {
        (self.begins.len() - 1) as u64
    }

    /// Returns the bytes of memory that the shard holds. A compressed shard holds all its bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let (Source::File(_, _, bytes) | Source::Memory(bytes)) = &self.bytes;
        bytes.len() + size_of_val(&self.begins[..])
    }

    /// Returns the start of sample `index`, which must exist.
    pub(crate) fn offset_bytes(&self, index: u64) -> u64 {
        u64::from(self.begins[index as usize])
    }

    /// Returns the values of sample `index` in the order of the columns. The sample must exist.
    pub(crate) fn sample(&mut self, index: u64) -> Result<Vec<Bytes>, Fault> {
        let (begin, end) = (self.offset_bytes(index), self.offset_bytes(index + 1));
        let mut sample = self.bytes.range(begin, end)?;
        let garbled = || Fault::from("the sizes of the values do not add up to the size of the sample");
        let varying = self.columns.iter().filter(|column| column.size.is_none()).count();
        if sample.len() < varying * 4 {
            return Err(garbled());
        }
        let head = sample.split_to(varying * 4);
        let mut sizes = head.chunks_exact(4).map(word);
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let size = column.size.or_else(|| sizes.next()).unwrap_or(0) as usize;
            if size > sample.len() {
                return Err(garbled());
            }
            values.push(sample.split_to(size));
        }
        if sample.is_empty() {
            Ok(values)
        } else {
            Err(garbled())
        }
    }
}

impl Source {
    fn len(&self) -> u64 {
        match self {
            Source::File(file, ..) => file.len(),
            Source::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns the bytes from `begin` up to `end`.
    fn range(&mut self, begin: u64, end: u64) -> Result<Bytes, Fault> {
        if begin > end || end > self.len() {
            return Err(Fault::from(format!(
                "the shard is truncated: expected {end} bytes, found {}",
                self.len()
            )));
        }
        match self {
            Source::Memory(bytes) => Ok(bytes.slice(begin as usize..end as usize)),
            Source::File(file, at, block) => {
                if begin < *at || end > *at + block.len() as u64 {
                    let length = (end - begin).max(BLOCK_BYTES.min(file.len() - begin));
                    if length > RECORD_BYTES_MAX {
                        return Err(Fault::from(format!(
                            "a range of {length} bytes exceeds the limit of {RECORD_BYTES_MAX} bytes"
                        )));
                    }
                    let mut read = vec![0; length as usize];
                    file.read_exact_at(begin, &mut read)?;
                    (*at, *block) = (begin, read.into());
                }
                let from = (begin - *at) as usize;
                Ok(block.slice(from..from + (end - begin) as usize))
            }
        }
    }

    /// Decompresses the source into memory, because a shard is compressed as a whole.
    fn decompressed(self) -> Result<Source, Fault> {
        let Source::File(file, ..) = self else {
            return Ok(self);
        };
        let decoder = zstd::stream::read::Decoder::new(file)?;
        let mut bytes = Vec::new();
        decoder.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(Fault::from(format!(
                "the uncompressed shard exceeds the limit of {RECORD_BYTES_MAX} bytes"
            )));
        }
        Ok(Source::Memory(bytes.into()))
    }
}

fn word(bytes: impl AsRef<[u8]>) -> u32 {
    bytes
        .as_ref()
        .first_chunk::<4>()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Returns the columns that the JSON text in `config` describes.
fn columns(config: &[u8]) -> Result<Vec<MdsColumn>, Fault> {
    let garbled = |what: &str| Fault::from(format!("invalid MDS shard: {what}"));
    let config: Json = serde_json::from_slice(config).map_err(|error| {
        garbled(&format!(
            "the description of the columns is not valid JSON: {error}"
        ))
    })?;
    let list = |key: &str| {
        let list = config.get(key).and_then(Json::as_array);
        list.ok_or_else(|| garbled(&format!("the list {key:?} is missing")))
    };
    let (names, encodings, sizes) = (
        list("column_names")?,
        list("column_encodings")?,
        list("column_sizes")?,
    );
    if names.len() != encodings.len() || names.len() != sizes.len() {
        return Err(garbled(
            "the numbers of names, encodings and sizes of the columns differ",
        ));
    }
    let columns = names
        .iter()
        .zip(encodings)
        .zip(sizes)
        .map(|((name, encoding), size)| {
            let text = |value: &Json| value.as_str().map(str::to_owned);
            let size = if size.is_null() {
                Some(None)
            } else {
                size.as_u64().and_then(|size| u32::try_from(size).ok()).map(Some)
            };
            let (name, encoding, size) = text(name)
                .zip(text(encoding))
                .zip(size)
                .map(|((name, encoding), size)| (name, encoding, size))?;
            Some(MdsColumn { name, encoding, size })
        });
    columns
        .collect::<Option<_>>()
        .ok_or_else(|| garbled("a column has no name, encoding or size"))
}

impl MdsColumn {
    /// Returns the encoding of the column's values.
    pub(crate) fn encoding(&self) -> Result<Encoding, String> {
        Encoding::named(&self.encoding).map_err(|reason| format!("column {:?} {reason}", self.name))
    }
}
