//! The format `text_lines`: the lines of text files. A line ends with `\n` or `\r\n`, which is not part of
//! the line. Text after the last line end is also a line, unless it is empty.

use std::io::{BufReader, Seek, SeekFrom};

use crate::exec::value::{Tensor, Value};
use crate::storage::Object;

use super::lines::{Line, Lines};
use super::reader::{BUFFER_BYTES, FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(crate) struct TextLines;

impl OpenFile for TextLines {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, mut file } = file;
        if let Err(error) = file.seek(SeekFrom::Start(Lines::<BufReader<Object>>::place(start))) {
            return Err(ReadError::unopened(format!("cannot open {path}: {error}")).blaming(&error));
        }
        let stream = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut lines = Lines::new(path, stream, start);
        lines.pass_rest()?;
        Ok(Box::new(TextReader { lines }))
    }
}

struct TextReader {
    lines: Lines<BufReader<Object>>,
}

impl FileReader for TextReader {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(Line { text, origin }) = self.lines.line()? else {
            return Ok(None);
        };
        match String::from_utf8(text) {
            Ok(line) => Ok(Some(Record {
                value: Value::from_buf([Tensor::string(line)]),
                origin,
            })),
            Err(error) => Err(ReadError::record(
                origin,
                format!("the line is not UTF-8: {}", error.utf8_error()),
            )),
        }
    }

    fn place(&self) -> u64 {
        self.lines.offset_bytes()
    }
}
