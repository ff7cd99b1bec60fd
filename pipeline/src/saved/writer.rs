//! The writer of a file of elements, which writes block by block.

use std::io::{self, Write};

use millstream_element::ElementSpec;

use crate::graph::Packing;

use super::block::Block;
use super::header::Header;

/// A file of elements that is being written.
#[derive(Debug)]
pub(crate) struct ElementWriter<W> {
    writer: W,
    packing: Packing,
    block: Block,
    /// The number of bytes written.
    written: u64,
    elements: u64,
}

impl<W: Write> ElementWriter<W> {
    /// Begins a file: writes the header.
    pub(crate) fn new(mut writer: W, spec: &ElementSpec, packing: Packing) -> io::Result<ElementWriter<W>> {
        let written = Header::new(spec, packing).write(&mut writer)?;
        Ok(ElementWriter::resumed(writer, packing, written, 0))
    }

    /// Continues a file whose first `written` bytes hold `elements` elements.
    pub(crate) fn resumed(writer: W, packing: Packing, written: u64, elements: u64) -> ElementWriter<W> {
        ElementWriter {
            writer,
            packing,
            block: Block::default(),
            written,
            elements,
        }
    }

    /// Adds an element to the file.
    pub(crate) fn write(&mut self, element: &[u8]) -> io::Result<()> {
        if self.block.is_full() {
            self.flush()?;
        }
        self.block.push(element)?;
        self.elements += 1;
        Ok(())
    }

    /// Writes all buffered elements. Returns the length of the file in bytes and its number of elements.
    pub(crate) fn flush(&mut self) -> io::Result<(u64, u64)> {
        if self.block.elements > 0 {
            self.written += self.block.write(self.packing, &mut self.writer)?;
            self.block = Block::default();
        }
        self.writer.flush()?;
        Ok((self.written, self.elements))
    }

    /// Writes the end mark, and returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let end = Block {
            raw: self.elements.to_le_bytes().to_vec(),
            elements: 0,
        };
        end.write(self.packing, &mut self.writer)?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}
