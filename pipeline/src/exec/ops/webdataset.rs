//! `webdataset`: the samples of tar shards. Neighbouring files that share a name up to the first dot are one
//! sample; what follows the dot says which component a file is.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use bytes::Bytes;

use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::skipped::Skipped;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::tar::{TarEntry, TarError, TarReader};
use crate::exec::token;
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, OnError};

use super::path::path_of;

/// Read-ahead of a shard: large enough that a disk or a network file system streams.
const BUFFER_BYTES: usize = 256 << 10;

pub(crate) struct WebDataset {
    options: graph::WebDataset,
    input: Input,
    cancel: Cancel,
    skipped: Skipped,
    shard: Option<Shard>,
}

/// A shard being read.
struct Shard {
    /// The element whose path it is.
    outer: Item,
    file: Arc<str>,
    reader: TarReader<BufReader<File>>,
    /// The entry after the last sample, already read; its data is not.
    peeked: Option<TarEntry>,
    last_key: String,
    /// Samples passed, yielded or not.
    passed: u64,
}

/// The files of one sample.
struct Sample {
    key: String,
    offset_bytes: u64,
    fields: Vec<Option<Bytes>>,
}

impl WebDataset {
    pub(crate) fn new(options: graph::WebDataset, input: Input, shared: &Shared) -> WebDataset {
        WebDataset {
            options,
            input,
            cancel: shared.cancel.clone(),
            skipped: shared.skipped.clone(),
            shard: None,
        }
    }

    /// Passes on a failure, or counts it if broken records are to be skipped.
    fn settle(&self, error: ExecError, outer: &Item) -> Result<(), ExecError> {
        match self.options.on_error {
            OnError::Raise => {
                token::abandon(&outer.marks);
                Err(error)
            }
            OnError::Skip => {
                self.skipped.record(&error);
                Ok(())
            }
        }
    }

    fn open(&mut self, outer: Item) -> Result<(), ExecError> {
        match Shard::open(&outer) {
            Ok((file, reader)) => {
                self.shard = Some(Shard {
                    outer,
                    file,
                    reader,
                    peeked: None,
                    last_key: String::new(),
                    passed: 0,
                });
                Ok(())
            }
            Err(error) => self.settle(error, &outer),
        }
    }

    /// The next sample of the open shard; `None` when the shard is done with.
    fn next_of_shard(&mut self, mut shard: Shard) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("webdataset")?;
            let sample = match shard.sample(&self.options.fields) {
                Ok(Some(sample)) => sample,
                Ok(None) => return Ok(None),
                Err(error) => {
                    // What follows damage in a shard cannot be told apart from more damage: on to the next.
                    self.settle(shard.damage(error), &shard.outer)?;
                    return Ok(None);
                }
            };
            let index = shard.passed;
            shard.passed = shard.passed.wrapping_add(1);
            match shard.item(sample, index, &self.options.fields) {
                Ok(item) => {
                    self.shard = Some(shard);
                    return Ok(Some(item));
                }
                Err(error) => self.settle(error, &shard.outer)?,
            }
        }
    }
}

impl Shard {
    fn open(outer: &Item) -> Result<(Arc<str>, TarReader<BufReader<File>>), ExecError> {
        let failed = |message: String| ExecError::new(ErrorKind::Data, "webdataset", message);
        let path = path_of("webdataset", outer)?;
        let file = File::open(path).map_err(|error| failed(format!("cannot open shard {path}: {error}")))?;
        Ok((
            Arc::from(path),
            TarReader::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        ))
    }

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

    fn item(&self, sample: Sample, index: u64, fields: &[String]) -> Result<Item, ExecError> {
        let origin = Origin {
            file: Arc::clone(&self.file),
            offset_bytes: sample.offset_bytes,
            key: sample.key,
        };
        let origin = Arc::new(origin);
        let mut value = Value::with_capacity(fields.len() + 1);
        for (field, name) in sample.fields.into_iter().zip(fields) {
            let missing = || {
                let message = format!("the sample has no file with the extension {name:?}");
                ExecError::new(ErrorKind::Data, "webdataset", message).at(Some(&origin))
            };
            value.push(Tensor::bytes(field.ok_or_else(missing)?));
        }
        value.push(Tensor::string(origin.key.clone()));
        let position = mix(self.outer.position, index);
        Ok(Item {
            value,
            marks: self.outer.marks.clone(),
            position,
            origin: Some(origin),
        })
    }

    fn damage(&self, error: TarError) -> ExecError {
        let after = if self.last_key.is_empty() {
            "before its first sample"
        } else {
            "last key read"
        };
        let key = self.last_key.clone();
        let origin = Origin {
            file: Arc::clone(&self.file),
            offset_bytes: error.offset_bytes,
            key,
        };
        ExecError::new(
            ErrorKind::Data,
            "webdataset",
            format!("the tar archive {} ({after})", error.reason),
        )
        .at(Some(&Arc::new(origin)))
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

impl Iterate for WebDataset {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            if let Some(shard) = self.shard.take()
                && let Some(item) = self.next_of_shard(shard)?
            {
                return Ok(Some(item));
            }
            match self.input.next()? {
                Some(outer) => self.open(outer)?,
                None => return Ok(None),
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.shard = None;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("webdataset")?;
        state.flag(self.shard.is_some())?;
        if let Some(shard) = &self.shard {
            state.item(&shard.outer)?;
            state.number(shard.passed)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("webdataset")?;
        if state.flag()? {
            let outer = state.item()?;
            let passed = state.number()?;
            let (file, reader) = Shard::open(&outer)?;
            let mut shard = Shard {
                outer,
                file,
                reader,
                peeked: None,
                last_key: String::new(),
                passed,
            };
            for _ in 0..passed {
                // With no fields wanted, the data is passed over.
                shard.sample(&[]).map_err(|error| shard.damage(error))?;
            }
            self.shard = Some(shard);
        }
        self.input.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn the_key_ends_at_the_first_dot_of_the_last_part() {
        assert_eq!(split_name("train.v2/0001.seg.png"), ("train.v2/0001", "seg.png"));
        assert_eq!(split_name("0001.jpg"), ("0001", "jpg"));
        assert_eq!(split_name("dir/readme"), ("dir/readme", ""));
    }
}
