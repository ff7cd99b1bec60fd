//! The lines of a stream, with the position at which each line begins. The formats that have lines decode
//! their contents.

use std::io::{BufRead, Read};
use std::sync::Arc;

use crate::exec::error::{Origin, Origins};

use super::reader::{ReadError, Start};

/// Maximum bytes of a line. A file with a longer line is probably not text, so the line is not read into
/// memory.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A line without its line end.
pub(crate) struct Line {
    pub(crate) text: Vec<u8>,
    pub(crate) origin: Origin,
}

/// A reader of the lines of a file.
pub(crate) struct Lines<R> {
    origins: Origins,
    stream: R,
    /// The position of the next line.
    offset_bytes: u64,
    /// The number of lines read.
    passed: u64,
    /// The start of the part to read.
    begin: u64,
    /// The position from which on no line of the part begins.
    end: Option<u64>,
}

impl<R: BufRead> Lines<R> {
    /// Returns a reader of the lines of `stream`, which must be at the byte [`Lines::place`] of `start`.
    pub(crate) fn new(path: Arc<str>, stream: R, start: Start) -> Lines<R> {
        Lines {
            origins: Origins::new(&path, "line"),
            stream,
            offset_bytes: Lines::<R>::place(start),
            passed: start.passed,
            begin: start.begin,
            end: start.end,
        }
    }

    /// Returns the position at which a stream must start. The position is the start of a line, or the byte
    /// before a part. The byte before a part shows whether a line begins at the start of the part.
    pub(crate) fn place(start: Start) -> u64 {
        if start.place == 0 {
            start.begin.saturating_sub(1)
        } else {
            start.place
        }
    }

    /// Skips the rest of a line that begins before the part begins.
    pub(crate) fn pass_rest(&mut self) -> Result<(), ReadError> {
        if self.offset_bytes >= self.begin {
            return Ok(());
        }
        let mut left = self.stream.by_ref().take(LINE_BYTES_MAX + 1);
        let passed = left.skip_until(b'\n').map_err(|error| {
            let origin = Origin::new(self.origins.file(), self.offset_bytes, "");
            ReadError::file(origin, format!("cannot read the file: {error}")).blaming(&error)
        })? as u64;
        if passed > LINE_BYTES_MAX {
            return Err(self.too_long(Origin::new(self.origins.file(), self.offset_bytes, "")));
        }
        self.offset_bytes = self.offset_bytes.saturating_add(passed);
        Ok(())
    }

    /// Returns the position of the next line.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Returns the next line, which ends with `\n` or `\r\n`, or `None` at the end of the file.
    pub(crate) fn line(&mut self) -> Result<Option<Line>, ReadError> {
        if self.end.is_some_and(|end| self.offset_bytes >= end) {
            return Ok(None);
        }
        let number = self.passed.saturating_add(1);
        let origin = if self.begin > 0 {
            let key = format!("line {number} after byte {}", self.begin);
            Origin::new(self.origins.file(), self.offset_bytes, key)
        } else {
            self.origins.at(self.offset_bytes, number)
        };
        let mut line = Vec::new();
        let mut limited = self.stream.by_ref().take(LINE_BYTES_MAX + 1);
        let bytes = match limited.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(None),
            Ok(bytes) => bytes as u64,
            Err(error) => {
                let reason = format!("cannot read the file: {error}");
                return Err(ReadError::file(origin, reason).blaming(&error));
            }
        };
        if bytes > LINE_BYTES_MAX {
            return Err(self.too_long(origin));
        }
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        }
        self.offset_bytes = self.offset_bytes.saturating_add(bytes);
        self.passed = self.passed.saturating_add(1);
        Ok(Some(Line { text: line, origin }))
    }

    fn too_long(&self, origin: Origin) -> ReadError {
        let reason =
            format!("a line exceeds the limit of {LINE_BYTES_MAX} bytes: check that the file is a text file");
        ReadError::file(origin, reason)
    }
}
