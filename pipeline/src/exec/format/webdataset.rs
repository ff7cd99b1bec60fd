//! The format `webdataset`: the samples of tar shards. Neighbouring files that share a name up to the first
//! dot form one sample. The rest of the name after the dot selects the component that a file becomes.

use std::io::BufReader;
use std::sync::Arc;

use bytes::Bytes;

use crate::exec::error::Origin;
use crate::exec::value::{Tensor, Value};
use crate::graph;
use crate::storage::Object;

use super::reader::{BUFFER_BYTES, FileReader, OpenFile, Opened, ReadError, Record, Start};
use super::tar::{TarEntry, TarError, TarReader};

pub(crate) struct WebDataset(pub(crate) graph::WebDataset);

/// A shard that is being read.
struct Shard {
    fields: Vec<String>,
    path: Arc<str>,
    reader: TarReader<BufReader<Object>>,
    /// The first entry after the last sample. The header of the entry is read already, but not its data.
    peeked: Option<TarEntry>,
    last_key: String,
}

/// The files of one sample.
struct Sample {
    key: String,
    offset_bytes: u64,
    fields: Vec<Option<Bytes>>,
}

impl OpenFile for WebDataset {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, file } = file;
        let mut shard = Shard {
            fields: self.0.fields.clone(),
            path,
            reader: TarReader::new(BufReader::with_capacity(BUFFER_BYTES, file)),
            peeked: None,
            last_key: String::new(),
        };
        for _ in 0..start.passed {
            // If no fields are wanted, the data of the files is skipped.
            shard.sample(&[]).map_err(|error| shard.damage(error))?;
        }
        Ok(Box::new(shard))
    }
}

impl FileReader for Shard {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let fields = std::mem::take(&mut self.fields);
        let sample = self.sample(&fields);
        self.fields = fields;
        // An error ends the shard, because intact samples after the damage cannot be told from further
        // damage.
        match sample.map_err(|error| self.damage(error))? {
            Some(sample) => self.complete(sample).map(Some),
            None => Ok(None),
        }
    }

    fn place(&self) -> u64 {
        // Samples are always skipped from the start of the shard. The offset of a sample does not include the
        // long names in front of the sample.
        0
    }
}

impl Shard {
    /// Reads the files of the next sample.
    fn sample(&mut self, fields: &[String]) -> Result<Option<Sample>, TarError> {
        let mut sample: Option<Sample> = None;
        loop {
            let entry = match self.peeked.take() {
                Some(entry) => entry,
                None => match self.reader.entry()? {
                    Some(entry) => entry,
                    None => return Ok(sample),
                },
            };
            let (key, extension) = split_name(&entry.path);
            let sample = match &mut sample {
                Some(sample) if sample.key != key => {
                    self.peeked = Some(entry);
                    break;
                }
                Some(sample) => sample,
                None => sample.insert(Sample {
                    key: key.to_owned(),
                    offset_bytes: entry.offset_bytes,
                    fields: vec![None; fields.len()],
                }),
            };
            self.last_key.clone_from(&sample.key);
            let slot = fields
                .iter()
                .position(|field| field.eq_ignore_ascii_case(extension));
            match slot.and_then(|slot| sample.fields.get_mut(slot)) {
                // A second file with the same name replaces the first file, as it would when the archive is
                // unpacked.
                Some(field) => *field = Some(self.reader.data(&entry)?),
                None => self.reader.pass_over(&entry)?,
            }
        }
        Ok(sample)
    }

    /// Returns the components of a sample, or an error if the sample lacks a field.
    fn complete(&self, sample: Sample) -> Result<Record, ReadError> {
        let origin = Origin::new(&self.path, sample.offset_bytes, sample.key);
        let mut value = Value::with_capacity(self.fields.len() + 1);
        for (field, name) in sample.fields.into_iter().zip(&self.fields) {
            let Some(field) = field else {
                let reason = format!("the sample has no file with the extension {name:?}");
                return Err(ReadError::record(origin, reason));
            };
            value.push(Tensor::bytes(field));
        }
        value.push(Tensor::string(origin.key()));
        Ok(Record { value, origin })
    }

    fn damage(&self, error: TarError) -> ReadError {
        let after = if self.last_key.is_empty() {
            "before its first sample"
        } else {
            "last key read"
        };
        let origin = Origin::new(&self.path, error.offset_bytes, self.last_key.clone());
        ReadError {
            kind: error.kind,
            ..ReadError::file(origin, format!("the tar archive {} ({after})", error.reason))
        }
    }
}

/// Splits a path into the key and the rest, at the first dot of the path's last part.
fn split_name(path: &str) -> (&str, &str) {
    let base = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[base..].find('.') {
        Some(dot) => (&path[..base + dot], &path[base + dot + 1..]),
        None => (path, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn a_key_ends_at_the_last_parts_dot() {
        assert_eq!(split_name("train.v2/0001.seg.png"), ("train.v2/0001", "seg.png"));
        assert_eq!(split_name("0001.jpg"), ("0001", "jpg"));
        assert_eq!(split_name("dir/readme"), ("dir/readme", ""));
    }
}
