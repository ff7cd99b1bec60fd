//! `text_lines`: the lines of text files, one file after the other. A line ends with `\n` or `\r\n`, which is not part of
//! it; what follows the last one is a line if there is any of it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::exec::value::{Tensor, Value};

use super::path::path_of;

/// Read-ahead of a file: large enough that a disk or a network file system streams.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a line. A file with longer ones is hardly text, and is not read into memory to find out.
const LINE_BYTES_MAX: u64 = 64 << 20;

pub(crate) struct TextLines {
    input: Input,
    cancel: Cancel,
    file: Option<TextFile>,
}

/// A file being read.
struct TextFile {
    /// The element whose path it is.
    outer: Item,
    path: Arc<str>,
    reader: BufReader<File>,
    /// Where the next line begins.
    offset_bytes: u64,
    /// Lines read.
    lines: u64,
}

impl TextLines {
    pub(crate) fn new(input: Input, cancel: Cancel) -> TextLines {
        TextLines {
            input,
            cancel,
            file: None,
        }
    }
}

impl Iterate for TextLines {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("text_lines")?;
            let Some(file) = &mut self.file else {
                let Some(outer) = self.input.next()? else {
                    return Ok(None);
                };
                self.file = Some(TextFile::open(outer, 0, 0)?);
                continue;
            };
            match file.line() {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => self.file = None,
                Err(error) => {
                    token::abandon(&file.outer.marks);
                    return Err(error);
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.file = None;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("text_lines")?;
        state.flag(self.file.is_some())?;
        if let Some(file) = &self.file {
            state.item(&file.outer)?;
            state.number(file.offset_bytes)?;
            state.number(file.lines)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("text_lines")?;
        if state.flag()? {
            let (outer, offset_bytes) = (state.item()?, state.number()?);
            self.file = Some(TextFile::open(outer, offset_bytes, state.number()?)?);
        }
        self.input.restore(state)
    }
}

impl TextFile {
    /// Opens the file whose path `outer` is, to go on behind `lines` lines of `offset_bytes` bytes.
    fn open(outer: Item, offset_bytes: u64, lines: u64) -> Result<TextFile, ExecError> {
        let (path, file) = opened(&outer, offset_bytes).inspect_err(|_| token::abandon(&outer.marks))?;
        Ok(TextFile {
            outer,
            path,
            reader: BufReader::with_capacity(BUFFER_BYTES, file),
            offset_bytes,
            lines,
        })
    }

    /// The next line, `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Item>, ExecError> {
        let origin = Arc::new(Origin {
            file: Arc::clone(&self.path),
            offset_bytes: self.offset_bytes,
            key: format!("line {}", self.lines.saturating_add(1)),
        });
        let failed =
            |message: String| ExecError::new(ErrorKind::Data, "text_lines", message).at(Some(&origin));
        let mut line = Vec::new();
        let mut reader = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
        let read = reader.read_until(b'\n', &mut line);
        let bytes = read.map_err(|error| failed(format!("cannot read the file: {error}")))? as u64;
        if bytes == 0 {
            return Ok(None);
        }
        if bytes > LINE_BYTES_MAX {
            let message = format!("a line has more than {LINE_BYTES_MAX} bytes; is this a text file?");
            return Err(failed(message));
        }
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        }
        let line = String::from_utf8(line)
            .map_err(|error| failed(format!("the line is not UTF-8: {}", error.utf8_error())))?;
        let position = mix(self.outer.position, self.lines);
        self.offset_bytes = self.offset_bytes.saturating_add(bytes);
        self.lines = self.lines.saturating_add(1);
        Ok(Some(Item {
            value: Value::from_buf([Tensor::string(line)]),
            marks: self.outer.marks.clone(),
            position,
            origin: Some(origin),
        }))
    }
}

/// The file whose path `outer` is, at `offset_bytes`.
fn opened(outer: &Item, offset_bytes: u64) -> Result<(Arc<str>, File), ExecError> {
    let path = path_of("text_lines", outer)?;
    let failed = |error| {
        let message = format!("cannot open {path}: {error}");
        ExecError::new(ErrorKind::Data, "text_lines", message)
    };
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(offset_bytes)).map_err(failed)?;
    Ok((Arc::from(path), file))
}
