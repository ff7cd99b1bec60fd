//! A shard: how many samples, where each begins, what their columns are, and the samples; compressed as a
//! whole, or not.

use std::io::Read;

use bytes::Bytes;
use serde_json::Value as Json;

use crate::exec::format::reader::Fault;
use crate::graph::RECORD_BYTES_MAX;
use crate::storage::Object;

use super::encoding::Encoding;

/// Bytes that describe the columns.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Bytes that are read at once, unless a sample has more.
const BLOCK_BYTES: u64 = 1 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A shard whose samples can be read.
pub(crate) struct Shard {
    bytes: Source,
    /// Start of each sample, and the end of the last.
    begins: Vec<u32>,
    pub(crate) columns: Vec<MdsColumn>,
}

/// A column of a shard.
pub(crate) struct MdsColumn {
    pub(crate) name: String,
    /// The encoding, by the name that it has in the shard.
    pub(crate) encoding: String,
    /// Bytes of a value, where all have as many.
    size: Option<u32>,
}

/// Source of a shard's bytes.
enum Source {
    /// In its file: a block of it, which begins there, is in memory.
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
            return Err(Fault::from(
                "the shard is corrupt: it says of no sample where it is",
            ));
        };
        let config_at = 8 + count * 4;
        if u64::from(*first) < config_at || !begins.is_sorted() {
            return Err(Fault::from(
                "the shard is corrupt, or none: its samples do not lie one behind the other",
            ));
        }
        if u64::from(*last) > bytes.len() {
            return Err(Fault::from(format!(
                "the shard is cut off: it has {} of {last} bytes",
                bytes.len()
            )));
        }
        if u64::from(*first) - config_at > CONFIG_BYTES_MAX {
            return Err(Fault::from(format!(
                "the columns are described by more than {CONFIG_BYTES_MAX} bytes"
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

    /// The memory that it holds: of what is compressed all of it.
    pub(crate) fn held_bytes(&self) -> usize {
        let (Source::File(_, _, bytes) | Source::Memory(bytes)) = &self.bytes;
        bytes.len() + size_of_val(&self.begins[..])
    }

    /// Returns the start of sample `index`, which must exist.
    pub(crate) fn offset_bytes(&self, index: u64) -> u64 {
        u64::from(self.begins[index as usize])
    }

    /// The values of sample `index`, which is there, in the order of the columns.
    pub(crate) fn sample(&mut self, index: u64) -> Result<Vec<Bytes>, Fault> {
        let (begin, end) = (self.offset_bytes(index), self.offset_bytes(index + 1));
        let mut sample = self.bytes.range(begin, end)?;
        let garbled = || Fault::from("the sizes of its values are not that of the sample");
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

    /// The bytes from `begin` up to `end`.
    fn range(&mut self, begin: u64, end: u64) -> Result<Bytes, Fault> {
        if begin > end || end > self.len() {
            return Err(Fault::from(format!(
                "the shard is cut off: it has {} of {end} bytes",
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
                            "{length} bytes at once, the limit is {RECORD_BYTES_MAX}"
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

    /// Decompresses the source into memory: a shard compressed as a whole is read as a whole.
    fn decompressed(self) -> Result<Source, Fault> {
        let Source::File(file, ..) = self else {
            return Ok(self);
        };
        let decoder = zstd::stream::read::Decoder::new(file)?;
        let mut bytes = Vec::new();
        decoder.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(Fault::from(format!(
                "the shard has more than {RECORD_BYTES_MAX} bytes uncompressed, which is the limit"
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

/// The columns that a shard describes.
fn columns(config: &[u8]) -> Result<Vec<MdsColumn>, Fault> {
    let garbled = |what: &str| Fault::from(format!("the shard is corrupt, or none: {what}"));
    let config: Json = serde_json::from_slice(config)
        .map_err(|error| garbled(&format!("its columns are garbled: {error}")))?;
    let list = |key: &str| {
        let list = config.get(key).and_then(Json::as_array);
        list.ok_or_else(|| garbled(&format!("it has no {key}")))
    };
    let (names, encodings, sizes) = (
        list("column_names")?,
        list("column_encodings")?,
        list("column_sizes")?,
    );
    if names.len() != encodings.len() || names.len() != sizes.len() {
        return Err(garbled(
            "its columns have not as many names as encodings and sizes",
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
    /// How its values are written.
    pub(crate) fn encoding(&self) -> Result<Encoding, String> {
        Encoding::named(&self.encoding).map_err(|reason| format!("column {:?} {reason}", self.name))
    }
}
