//! `webdataset`: the samples of tar shards. Neighbouring files that share a name up to the first dot are one
//! sample; what follows the dot says which component a file is.

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

/// A shard being read.
struct Shard {
    fields: Vec<String>,
    path: Arc<str>,
    reader: TarReader<BufReader<Object>>,
    /// The entry after the last sample, already read; its data is not.
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
            // With no fields wanted, the data is passed over.
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
        // What follows damage in a shard cannot be told apart from more damage.
        match sample.map_err(|error| self.damage(error))? {
            Some(sample) => self.complete(sample).map(Some),
            None => Ok(None),
        }
    }

    fn place(&self) -> u64 {
        // Samples are passed over from the start: where one begins says nothing of long names in front of it.
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
                // A second file of one name replaces the first, as unpacking the archive would.
                Some(field) => *field = Some(self.reader.data(&entry)?),
                None => self.reader.pass_over(&entry)?,
            }
        }
        Ok(sample)
    }

    /// The components of a sample, which has all of them.
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

/// The key of a file and what follows: the name up to the first dot of its last part, and the rest.
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
