//! The format `mds`: the samples of a shard as elements.

use millstream_element::ElementSpec;

use crate::exec::error::{Origin, Origins};
use crate::exec::format::columns::{names_of, wanted};
use crate::exec::format::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};
use crate::exec::value::Value;
use crate::graph;
use crate::storage::Storage;

use super::encoding::Encoding;
use super::index;
use super::shard::{MdsColumn, Shard};

pub(crate) struct Mds(pub(crate) ElementSpec);

struct MdsFile {
    origins: Origins,
    shard: Shard,
    /// The columns of the components: the place of each column in the shard, and the encoding of its values.
    columns: Vec<(usize, Encoding)>,
    spec: ElementSpec,
    next: u64,
}

/// Returns the spec of the elements of shards like `file`.
pub(crate) fn describe(file: Opened, params: &graph::Mds) -> Result<ElementSpec, Fault> {
    let mut shard = Shard::open(file.file)?;
    let sample = if shard.count() > 0 {
        Some(shard.sample(0)?)
    } else {
        None
    };
    let there: Vec<String> = shard.columns.iter().map(|column| column.name.clone()).collect();
    let mut fields = Vec::new();
    for name in wanted(&params.columns.names, &there)? {
        let (place, column) = found(&shard.columns, &name)?;
        let value = sample.as_ref().and_then(|sample| sample.get(place));
        let spec = column
            .encoding()?
            .spec(value)
            .map_err(|reason| format!("column {name:?} {reason}"))?;
        fields.push((name, spec));
    }
    ElementSpec::dict(fields).map_err(|error| Fault::from(error.to_string()))
}

impl OpenFile for Mds {
    fn opened(&self, storage: &Storage, path: &str) -> Result<Opened, ReadError> {
        index::opened(storage, path)
    }

    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let path = file.path;
        let failed = |fault: Fault| ReadError::file(Origin::new(&path, 0, ""), fault);
        let shard = Shard::open(file.file).map_err(failed)?;
        let columns = names_of(&self.0).into_iter().map(|name| {
            let (place, column) = found(&shard.columns, &name)?;
            Ok((place, column.encoding()?))
        });
        let columns: Result<Vec<_>, String> = columns.collect();
        let columns = columns.map_err(|reason| failed(Fault::from(reason)))?;
        Ok(Box::new(MdsFile {
            columns,
            spec: self.0.clone(),
            next: start.place.min(shard.count()),
            shard,
            origins: Origins::new(&path, "sample"),
        }))
    }
}

impl FileReader for MdsFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.next == self.shard.count() {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        let origin = self.origins.at(self.shard.offset_bytes(index), index);
        let sample = self
            .shard
            .sample(index)
            .map_err(|fault| ReadError::record(origin.clone(), fault))?;
        let mut value = Value::with_capacity(self.columns.len());
        for ((place, encoding), spec) in self.columns.iter().zip(self.spec.components()) {
            // A sample has a value for every column.
            let found = encoding.tensor(sample[*place].clone()).and_then(|tensor| {
                let reason = || format!("expected {spec}, found {}{:?}", tensor.dtype(), tensor.dims());
                if tensor.fits(spec) {
                    Ok(tensor)
                } else {
                    Err(reason())
                }
            });
            match found {
                Ok(tensor) => value.push(tensor),
                Err(reason) => {
                    let name = &self.shard.columns[*place].name;
                    return Err(ReadError::record(origin, format!("column {name:?}: {reason}")));
                }
            }
        }
        Ok(Some(Record { value, origin }))
    }

    fn place(&self) -> u64 {
        self.next
    }

    fn held_bytes(&self) -> usize {
        self.shard.held_bytes()
    }
}

fn found<'c>(columns: &'c [MdsColumn], name: &str) -> Result<(usize, &'c MdsColumn), String> {
    let mut places = columns.iter().enumerate();
    places
        .find(|(_, column)| column.name == name)
        .ok_or_else(|| format!("the shard has no column {name:?}"))
}
