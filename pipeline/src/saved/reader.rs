//! Reads a file of elements. What is missing or damaged is an error, also where only the end is missing.

use std::io::{self, Read, Seek, SeekFrom};

use super::block::{BLOCK_ELEMENTS_MAX, Block};
use super::header::{Header, damaged};

/// A file of elements being read.
#[derive(Debug)]
pub(crate) struct ElementReader<R> {
    reader: R,
    header: Header,
    /// Start of the current block.
    block_at: u64,
    /// Start of the next block.
    next_at: u64,
    block: Block,
    /// Bytes and elements of the block that were passed.
    passed: usize,
    index: u32,
    /// Elements read, from the first of the file.
    elements: u64,
    ended: bool,
}

/// The position at which a reader continues: the block, and the element in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the position as one number, which is 0 for the beginning.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The place of that number.
    pub(crate) fn of(number: u64) -> Place {
        Place(number)
    }
}

impl<R: Read + Seek> ElementReader<R> {
    /// Opens a file at its beginning.
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

    /// Goes to a place, behind `elements` elements.
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
                return Err(damaged("it ends before the place to go on"));
            }
        }
        Ok(())
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the position of the next element.
    pub(crate) fn place(&self) -> Place {
        // Files have fewer than 2^51 bytes.
        Place(self.block_at * 2 * u64::from(BLOCK_ELEMENTS_MAX) + u64::from(self.index))
    }

    /// Returns the start of the latest element's block, in bytes.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.block_at
    }

    /// The next element; `None` at the end.
    pub(crate) fn element(&mut self) -> io::Result<Option<&[u8]>> {
        while self.index >= self.block.elements {
            if self.ended || !self.next_block()? {
                return Ok(None);
            }
        }
        let damage = || damaged("an element has other bytes than it says");
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

    /// Reads a block; `false` at the end.
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
        if block.raw[..] == self.elements.to_le_bytes() {
            Ok(false)
        } else {
            Err(damaged("it does not have as many elements as it says"))
        }
    }
}
