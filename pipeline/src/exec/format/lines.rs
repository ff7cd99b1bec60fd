//! Lines of a stream, with where each begins. What is in a line is the formats' that have lines.

use std::io::{BufRead, Read};
use std::sync::Arc;

use crate::exec::error::Origin;

use super::reader::{ReadError, Start, origin};

/// Bytes of a line. A file with longer ones is hardly text, and is not read into memory to find out.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A line without its end.
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    pub(super) origin: Arc<Origin>,
}

/// The lines of a file.
pub(super) struct Lines<R> {
    path: Arc<str>,
    stream: R,
    /// Where the next line begins.
    offset_bytes: u64,
    /// Lines read.
    passed: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `stream`, which is at the byte `start.place`.
    pub(super) fn new(path: Arc<str>, stream: R, start: Start) -> Lines<R> {
        Lines {
            path,
            stream,
            offset_bytes: start.place,
            passed: start.passed,
        }
    }

    /// Where the next line begins.
    pub(super) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// The next line, which ends with `\n` or `\r\n`; `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<Line>, ReadError> {
        let key = format!("line {}", self.passed.saturating_add(1));
        let origin = origin(&self.path, self.offset_bytes, key);
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
            let reason = format!("a line has more than {LINE_BYTES_MAX} bytes; is this a text file?");
            return Err(ReadError::file(origin, reason));
        }
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        }
        self.offset_bytes = self.offset_bytes.saturating_add(bytes);
        self.passed = self.passed.saturating_add(1);
        Ok(Some(Line { text: line, origin }))
    }
}
