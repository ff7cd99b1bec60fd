//! The format `npz`: the arrays of an archive. Each array is read whole, because arrays are usually
//! compressed.

use std::io::Read;

use millstream_element::{ElementSpec, TensorSpec};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::exec::error::{Origin, Origins};
use crate::exec::value::{Tensor, Value};
use crate::graph;
use crate::storage::Object;

use super::header::Header;
use super::items::{in_order, read_bytes, tensor};
use crate::exec::format::columns::{names_of, wanted};
use crate::exec::format::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};

/// Maximum bytes of the wanted arrays of an archive, which are held in memory.
const ARRAYS_BYTES_MAX: u64 = 1 << 30;

pub(crate) struct Npz {
    pub(crate) params: graph::Numpy,
    pub(crate) spec: ElementSpec,
}

struct NpzFile {
    origins: Origins,
    arrays: Vec<Tensor>,
    whole: bool,
    rows: u64,
    next: u64,
}

/// Returns the spec of the elements of files like `file`.
pub(crate) fn describe(file: Opened, params: &graph::Numpy) -> Result<ElementSpec, Fault> {
    let mut archive = archive(file.file)?;
    let there = array_names(&archive);
    let mut fields: Vec<(String, TensorSpec)> = Vec::new();
    for name in wanted(&params.columns.names, &there)? {
        let mut entry = entry(&mut archive, &name)?;
        let spec = Header::read(&mut entry).and_then(|header| Ok(header.spec(params.whole)?));
        fields.push((
            name.clone(),
            spec.map_err(|fault| fault.within(&format!("array {name:?}")))?,
        ));
    }
    ElementSpec::dict(fields).map_err(|error| Fault::from(error.to_string()))
}

impl OpenFile for Npz {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let path = file.path;
        let failed = |reason| ReadError::file(Origin::new(&path, 0, ""), reason);
        let arrays = self.arrays(file.file).map_err(failed)?;
        let leading = |array: &Tensor| array.dims().first().copied().unwrap_or(0);
        let rows = if self.params.whole {
            1
        } else {
            arrays.first().map_or(0, leading)
        };
        Ok(Box::new(NpzFile {
            arrays,
            whole: self.params.whole,
            rows,
            next: start.place.min(rows),
            origins: Origins::new(&path, "row"),
        }))
    }
}

impl Npz {
    /// Returns the wanted arrays, in the order of the components.
    fn arrays(&self, file: Object) -> Result<Vec<Tensor>, Fault> {
        let mut archive = archive(file)?;
        let (mut arrays, mut taken, mut rows) = (Vec::new(), 0u64, None);
        for (name, spec) in names_of(&self.spec).iter().zip(self.spec.components()) {
            let mut entry = entry(&mut archive, name)?;
            let place = format!("array {name:?}");
            let of = |reason: String| Fault::from(reason).within(&place);
            let read = |error: std::io::Error| Fault::from(error).within(&place);
            let header = Header::read(&mut entry).map_err(|fault| fault.within(&place))?;
            let (dtype, dims) = (header.items.dtype(), header.dims(self.params.whole).map_err(of)?);
            if !spec.accepts(dtype, dims) {
                return Err(of(format!("expected elements of {spec}, found {dtype}{dims:?}")));
            }
            if !self.params.whole && *rows.get_or_insert(header.shape[0]) != header.shape[0] {
                let expected = rows.unwrap_or(0);
                return Err(of(format!(
                    "expected {expected} rows as in the earlier arrays, found {}: read the arrays whole",
                    header.shape[0]
                )));
            }
            taken = taken.saturating_add(header.data_bytes);
            if taken > ARRAYS_BYTES_MAX {
                return Err(of(format!(
                    "the arrays up to this array have {taken} bytes, the limit is {ARRAYS_BYTES_MAX}: save the array as .npy"
                )));
            }
            let bytes = read_bytes(&mut entry, header.data_bytes).map_err(read)?;
            // Reading the end of the entry compares the checksum of the archive.
            if entry.read(&mut [0]).map_err(read)? > 0 {
                return Err(of("expected the end of the array, found more bytes".to_owned()));
            }
            let shape = header.shape.clone();
            arrays.push(tensor(&header, &shape, in_order(&header, bytes)).map_err(of)?);
        }
        Ok(arrays)
    }
}

impl FileReader for NpzFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.next == self.rows {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        if self.whole {
            return Ok(Some(Record {
                value: self.arrays.iter().cloned().collect(),
                origin: Origin::new(self.origins.file(), 0, ""),
            }));
        }
        let origin = self.origins.at(0, index);
        // All arrays have the same number of rows.
        let rows: Option<Value> = self.arrays.iter().map(|array| array.row(index)).collect();
        match rows {
            Some(value) => Ok(Some(Record { value, origin })),
            None => Err(ReadError::record(origin, "an array has too few rows")),
        }
    }

    fn place(&self) -> u64 {
        self.next
    }
}

fn archive(file: Object) -> Result<ZipArchive<Object>, Fault> {
    ZipArchive::new(file).map_err(|error| fault(error, "invalid or truncated zip archive"))
}

fn entry<'a>(archive: &'a mut ZipArchive<Object>, name: &str) -> Result<impl Read + use<'a>, Fault> {
    let there = array_names(archive).join(", ");
    let entry = archive.by_name(&format!("{name}.npy"));
    entry.map_err(|error| fault(error, &format!("array {name:?} among the arrays {there}")))
}

fn fault(error: ZipError, what: &str) -> Fault {
    if let ZipError::Io(error) = error {
        Fault::from(error)
    } else {
        Fault::from(format!("{what}: {error}"))
    }
}

fn array_names(archive: &ZipArchive<Object>) -> Vec<String> {
    let names = archive.file_names();
    names
        .filter_map(|name| Some(name.ok()?.strip_suffix(".npy")?.to_owned()))
        .collect()
}
