//! A writer of a WebDataset tar shard, which appears under its name only when it is complete.

use std::io::{self, BufWriter};
use std::path::Path;

use tar::{Builder, Header};

use super::whole_file::WholeFile;

/// A writer of a WebDataset shard. The shard gets its name when it is finished; a writer that is dropped
/// earlier leaves no file.
pub struct WebDatasetWriter {
    builder: Builder<BufWriter<WholeFile>>,
    last_key: String,
}

impl WebDatasetWriter {
    /// Begins the shard at `path`. An existing file is replaced when the shard is finished.
    ///
    /// # Errors
    /// The error of creating a temporary file next to `path`.
    pub fn create(path: impl AsRef<Path>) -> io::Result<WebDatasetWriter> {
        let file = BufWriter::new(WholeFile::create(path.as_ref())?);
        Ok(WebDatasetWriter {
            builder: Builder::new(file),
            last_key: String::new(),
        })
    }

    /// Appends a sample: one file `key.extension` for each of its fields, in this order.
    ///
    /// # Errors
    /// An error of the kind `InvalidInput` for an invalid sample, otherwise the error of the file system.
    ///
    /// A key is invalid if it is empty or equals the previous key. A key with a dot in its last part is
    /// invalid too, because readers end the key at the dot. An extension is invalid if it is empty, contains
    /// a `/` or occurs twice.
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

    /// Syncs the shard to the disk, and moves it to its path.
    ///
    /// # Errors
    /// The error of the file system; the shard does not appear at its path then.
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

/// Refuses a sample that a reader would not read as it was written.
fn check(key: &str, last_key: &str, fields: &[(&str, &[u8])]) -> Result<(), String> {
    let base = key.rsplit('/').next().unwrap_or(key);
    if base.is_empty() || base.contains('.') || key.starts_with('/') {
        return Err(
            "invalid key: expected a relative path whose last part is not empty and has no dot".to_owned(),
        );
    }
    if key == last_key {
        return Err("the key equals the previous key, so readers would merge the two samples".to_owned());
    }
    if fields.is_empty() {
        return Err("the sample has no fields".to_owned());
    }
    for (index, (extension, _)) in fields.iter().enumerate() {
        if extension.is_empty() || extension.contains('/') {
            return Err(format!(
                "invalid extension {extension:?}: expected a name without `/`"
            ));
        }
        if fields[..index]
            .iter()
            .any(|(earlier, _)| earlier.eq_ignore_ascii_case(extension))
        {
            return Err(format!("the extension {extension:?} occurs twice"));
        }
    }
    Ok(())
}
