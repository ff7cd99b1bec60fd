//! The format `image_folder`: whole files, each with the number of the class whose folder contains the file.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::exec::error::Origin;
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, IMAGE_EXTENSIONS, RECORD_BYTES_MAX};
use crate::storage::{Object, Storage};

use super::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(crate) struct ImageFolder {
    params: graph::ImageFolder,
    storage: Storage,
    /// The classes in the order of their numbers, once they are known.
    classes: OnceLock<Vec<String>>,
}

struct ImageFile {
    path: Arc<str>,
    file: Option<Object>,
    label: i64,
}

/// A reader of a file that is not an image, which yields no records.
struct NoImage;

impl ImageFolder {
    pub(crate) fn new(params: &graph::ImageFolder, storage: &Storage) -> ImageFolder {
        ImageFolder {
            params: params.clone(),
            storage: storage.clone(),
            classes: OnceLock::new(),
        }
    }

    /// Returns the sorted folders of the root that contain files, unless the dataset lists the classes.
    fn classes(&self) -> Result<&[String], ReadError> {
        if !self.params.classes.is_empty() {
            return Ok(&self.params.classes);
        }
        if let Some(classes) = self.classes.get() {
            return Ok(classes);
        }
        let files = self.storage.list(&self.params.pattern())?;
        let classes: BTreeSet<&str> = files
            .iter()
            .filter_map(|file| self.class_of(&file.path))
            .collect();
        Ok(self
            .classes
            .get_or_init(|| classes.into_iter().map(str::to_owned).collect()))
    }

    /// Returns the name of the root's folder that contains the file.
    fn class_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        // Listed paths have no leading `./`.
        let root = self.params.root.trim_start_matches("./");
        let root = if root == "." { "" } else { root };
        let mut below = Path::new(path).strip_prefix(root).ok()?.iter();
        let class = below.next()?.to_str()?;
        below.next().map(|_| class)
    }

    fn is_wanted(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is = |wanted: &str| wanted.eq_ignore_ascii_case(extension);
        if self.params.extensions.is_empty() {
            IMAGE_EXTENSIONS.into_iter().any(is)
        } else {
            self.params.extensions.iter().any(|wanted| is(wanted))
        }
    }
}

impl OpenFile for ImageFolder {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, file } = file;
        if !self.is_wanted(&path) {
            return Ok(Box::new(NoImage));
        }
        let class = self.class_of(&path);
        let classes = self.classes()?;
        let label = class.and_then(|class| classes.iter().position(|known| known == class));
        let Some(label) = label else {
            let reason = format!(
                "expected a file in the folder of a class; the classes of {:?} are: {}",
                self.params.root,
                classes.join(", ")
            );
            return Err(ReadError::file(Origin::new(&path, 0, ""), reason));
        };
        Ok(Box::new(ImageFile {
            path,
            file: (start.passed == 0).then_some(file),
            label: label as i64,
        }))
    }
}

impl FileReader for ImageFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(file) = self.file.take() else {
            return Ok(None);
        };
        let origin = Origin::new(&self.path, 0, "");
        let mut bytes = Vec::new();
        let read = file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| ReadError::file(origin.clone(), Fault::from(error)))?;
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(ReadError::file(
                origin,
                format!("the file exceeds the limit of {RECORD_BYTES_MAX} bytes"),
            ));
        }
        let value = [
            Tensor::bytes(bytes),
            Tensor::i64(self.label),
            Tensor::string(&*self.path),
        ];
        Ok(Some(Record {
            value: Value::from_iter(value),
            origin,
        }))
    }

    fn place(&self) -> u64 {
        0
    }
}

impl FileReader for NoImage {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        Ok(None)
    }

    fn place(&self) -> u64 {
        0
    }
}
