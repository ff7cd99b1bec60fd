//! A WebDataset tar shard being written, that is there as a whole or not at all.

use std::io::{self, BufWriter};
use std::path::Path;

use tar::{Builder, Header};

use super::whole_file::WholeFile;

/// Writes a WebDataset shard. It has its name when it is finished; a writer that is dropped before leaves
/// nothing.
pub struct WebDatasetWriter {
    builder: Builder<BufWriter<WholeFile>>,
    last_key: String,
}

impl WebDatasetWriter {
    /// Begins the shard at `path`, which replaces one that is there when it is finished.
    ///
    /// # Errors
    /// What creating a file beside `path` fails with.
    pub fn create(path: impl AsRef<Path>) -> io::Result<WebDatasetWriter> {
        let file = BufWriter::new(WholeFile::create(path.as_ref())?);
        Ok(WebDatasetWriter {
            builder: Builder::new(file),
            last_key: String::new(),
        })
    }

    /// Appends a sample: a file `key.extension` for each of its fields, in this order.
    ///
    /// # Errors
    /// Fails with `InvalidInput` for a key that is empty, equals the last one, or has a dot in its last part,
    /// where readers end keys. The same holds for an extension that is empty, has a `/` in it or comes twice;
    /// else what the file system fails with.
    pub fn write(&mut self, key: &str, fields: &[(&str, &[u8])]) -> io::Result<()> {
        check(key, &self.last_key, fields).map_err(|reason| {
            let message = format!("sample {key:?}: {reason}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        key.clone_into(&mut self.last_key);
        for (extension, bytes) in fields {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o444);
            self.builder
                .append_data(&mut header, format!("{key}.{extension}"), *bytes)?;
        }
        Ok(())
    }

    /// Puts the shard in its place, once the disk has its bytes.
    ///
    /// # Errors
    /// What the file system fails with; then the shard is not there.
    pub fn finish(self) -> io::Result<()> {
        let file = self.builder.into_inner()?;
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .finish()
    }
}

impl std::fmt::Debug for WebDatasetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebDatasetWriter")
            .field("last_key", &self.last_key)
            .finish_non_exhaustive()
    }
}

/// Refuses what a reader would not find again as it was written.
fn check(key: &str, last_key: &str, fields: &[(&str, &[u8])]) -> Result<(), String> {
    let base = key.rsplit('/').next().unwrap_or(key);
    if base.is_empty() || base.contains('.') || key.starts_with('/') {
        return Err(
            "a key ends where its last part has a dot, and is no path from the root: write none of both"
                .to_owned(),
        );
    }
    if key == last_key {
        return Err("it has the key of the sample before, and would be read as part of it".to_owned());
    }
    if fields.is_empty() {
        return Err("it has no fields".to_owned());
    }
    for (index, (extension, _)) in fields.iter().enumerate() {
        if extension.is_empty() || extension.contains('/') {
            return Err(format!("{extension:?} is no extension"));
        }
        if fields[..index]
            .iter()
            .any(|(earlier, _)| earlier.eq_ignore_ascii_case(extension))
        {
            return Err(format!("it has the extension {extension:?} twice"));
        }
    }
    Ok(())
}
