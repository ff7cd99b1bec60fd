//! The reader of a file of elements. Missing or damaged bytes are errors, even if only the end mark is
//! missing.

use std::io::{self, Read, Seek, SeekFrom};

use super::block::{BLOCK_ELEMENTS_MAX, Block, Head};
use super::header::{Header, damaged};

/// A file of elements that is being read.
#[derive(Debug)]
pub(crate) struct ElementReader<R> {
    reader: R,
    header: Header,
    /// The start of the current block, in bytes.
    block_at: u64,
    /// The start of the next block, in bytes.
    next_at: u64,
    block: Block,
    /// The number of bytes of the current block that were read. `index` counts the elements that were read.
    passed: usize,
    index: u32,
    /// The number of elements that were read, from the start of the file.
    elements: u64,
    ended: bool,
}

/// The position at which a reader continues: the start of a block, and the number of an element in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the position as a number, which is 0 for the start of the file.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Converts a number from [`Place::number`] back to a position.
    pub(crate) fn of(number: u64) -> Place {
        Place(number)
    }
}

impl<R: Read + Seek> ElementReader<R> {
    /// Opens a file at its start.
    pub(crate) fn new(mut reader: R) -> io::Result<ElementReader<R>> {
        let (header, at) = Header::read(&mut reader)?;
        Ok(ElementReader {
            reader,
            header,
            block_at: at,
            next_at: at,
            block: Block::default(),
            passed: 0,
            index: 0,
            elements: 0,
            ended: false,
        })
    }

    /// Moves to a position, before which the file has `elements` elements.
    pub(crate) fn go_to(&mut self, place: Place, elements: u64) -> io::Result<()> {
        if place.0 == 0 {
            return Ok(());
        }
        let (block, index) = (
            place.0 / u64::from(BLOCK_ELEMENTS_MAX) / 2,
            place.0 % (2 * u64::from(BLOCK_ELEMENTS_MAX)),
        );
        self.reader.seek(SeekFrom::Start(block))?;
        (self.block_at, self.next_at) = (block, block);
        self.block = Block::default();
        (self.passed, self.index) = (0, 0);
        self.elements = elements.saturating_sub(index);
        for _ in 0..index {
            if self.element()?.is_none() {
                return Err(damaged("the file ends before the position to continue at"));
            }
        }
        Ok(())
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the position of the next element.
    pub(crate) fn place(&self) -> Place {
        // The multiplication cannot overflow for files of fewer than 2^51 bytes.
        Place(self.block_at * 2 * u64::from(BLOCK_ELEMENTS_MAX) + u64::from(self.index))
    }

    /// Returns the start of the block that holds the last element read, in bytes.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.block_at
    }

    /// Returns the number of elements of a file that was opened at its start. Reads only the headers of the
    /// blocks, and the end mark.
    pub(crate) fn count(mut self) -> io::Result<u64> {
        let mut elements = 0_u64;
        loop {
            let head = Head::read(&mut self.reader)?;
            if head.elements > 0 {
                elements += u64::from(head.elements);
                self.reader.seek(SeekFrom::Current(i64::from(head.stored_len)))?;
                continue;
            }
            let end = head.block(self.header.packing, &mut self.reader)?;
            check_end(&end, elements)?;
            return Ok(elements);
        }
    }

    /// Reads the next element; returns `None` at the end of the file.
    pub(crate) fn element(&mut self) -> io::Result<Option<&[u8]>> {
        while self.index >= self.block.elements {
            if self.ended || !self.next_block()? {
                return Ok(None);
            }
        }
        let damage = || damaged("an element is damaged: its length exceeds the block");
        let head = self
            .block
            .raw
            .get(self.passed..self.passed + 4)
            .ok_or_else(damage)?;
        let len = u32::from_le_bytes(head.try_into().map_err(|_| damage())?) as usize;
        let begin = self.passed + 4;
        let element = self.block.raw.get(begin..begin + len).ok_or_else(damage)?;
        self.passed = begin + len;
        self.index += 1;
        self.elements += 1;
        Ok(Some(element))
    }

    /// Reads the next block; returns `false` at the end of the file.
    fn next_block(&mut self) -> io::Result<bool> {
        let (block, bytes) = Block::read(self.header.packing, &mut self.reader)?;
        self.block_at = self.next_at;
        self.next_at += bytes;
        (self.passed, self.index) = (0, 0);
        if block.elements > 0 {
            self.block = block;
            return Ok(true);
        }
        self.block = Block::default();
        self.ended = true;
        check_end(&block, self.elements)?;
        Ok(false)
    }
}

/// Checks the end mark of a file of which `elements` elements were found.
fn check_end(end: &Block, elements: u64) -> io::Result<()> {
    if end.raw[..] == elements.to_le_bytes() {
        Ok(())
    } else {
        Err(damaged(
            "the file is damaged: its number of elements differs from the end mark",
        ))
    }
}
