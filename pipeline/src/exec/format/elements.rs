//! The format `elements`: files of saved elements. `crate::saved` defines the layout of these files.

use std::io::{self, BufReader};

use crate::exec::error::{Origin, Origins};
use crate::exec::item_bytes::decoded;
use crate::graph;
use crate::saved::{ElementReader, Place};
use crate::storage::Object;

use super::reader::{BUFFER_BYTES, FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(crate) struct Elements(pub(crate) graph::Elements);

struct ElementsFile {
    origins: Origins,
    reader: ElementReader<BufReader<Object>>,
    passed: u64,
}

impl OpenFile for Elements {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, file } = file;
        let unread = |error: io::Error| {
            ReadError::file(Origin::new(&path, 0, "header"), reason(&error)).blaming(&error)
        };
        let mut reader = ElementReader::new(BufReader::with_capacity(BUFFER_BYTES, file)).map_err(unread)?;
        let found = reader.header().spec();
        if *found != self.0.spec.0 {
            let message = format!(
                "expected elements of {}, found elements of {found}",
                self.0.spec.0
            );
            return Err(ReadError::file(Origin::new(&path, 0, "header"), message));
        }
        reader
            .go_to(Place::of(start.place), start.passed)
            .map_err(unread)?;
        Ok(Box::new(ElementsFile {
            origins: Origins::new(&path, "element"),
            reader,
            passed: start.passed,
        }))
    }
}

impl FileReader for ElementsFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let origin = self.origins.at(self.reader.offset_bytes(), self.passed);
        match self.reader.element() {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => {
                let item = decoded(bytes).map_err(|reason| ReadError::file(origin.clone(), reason))?;
                self.passed += 1;
                Ok(Some(Record {
                    value: item.value,
                    origin,
                }))
            }
            Err(error) => Err(ReadError::file(origin, reason(&error)).blaming(&error)),
        }
    }

    fn place(&self) -> u64 {
        self.reader.place().number()
    }
}

/// Returns the message for a read error.
fn reason(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        "the file of elements is truncated".to_owned()
    } else {
        format!("the file of elements cannot be read: {error}")
    }
}
