//! Parts of files: the text form of a part, which replaces a path, and the rule for which files may be
//! read in parts.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use crate::graph::tree::Graph;
use crate::graph::tree::Op;
use crate::ops::argument::Argument;
use crate::ops::filter::Filter;
use crate::ops::flat_map::FlatMap;
use crate::ops::interleave::Interleave;
use crate::ops::map::Map;
use crate::ops::prefetch::Prefetch;
use crate::ops::read::Read;

/// A whole file, or a part of a file given by a range of bytes. A part consists of the records that
/// begin within its range, even if the last record ends after the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart<'p> {
    /// The path of the file.
    pub path: &'p str,
    /// The range of bytes. `None` means the whole file.
    pub range: Option<Range<u64>>,
}

impl<'p> FilePart<'p> {
    /// Parses a text that [`FilePart::written`] returned. Takes any other text as the path of a whole
    /// file.
    pub fn of(text: &'p str) -> FilePart<'p> {
        let part = text.split_once('\0').and_then(|(path, range)| {
            let (start, end) = range.split_once('-')?;
            let range = number(start)?..number(end)?;
            (!range.is_empty()).then_some(FilePart {
                path,
                range: Some(range),
            })
        });
        part.unwrap_or(FilePart {
            path: text,
            range: None,
        })
    }

    /// Returns the text form of the part. The text sorts directly after the path of its file, and is
    /// never a valid path. The parts of a file sort by their ranges.
    pub fn written(&self) -> String {
        match &self.range {
            None => self.path.to_owned(),
            Some(Range { start, end }) => format!("{}\0{start:016x}-{end:016x}", self.path),
        }
    }
}

/// Parses a number of exactly 16 hexadecimal digits.
fn number(text: &str) -> Option<u64> {
    let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

impl Graph {
    /// Returns whether the files that the source `node` lists may be read in parts. The paths must
    /// reach a reader that can read parts. No operation between the source and the reader may depend on
    /// the number of files or records. A function that reads one file per call counts as such a reader
    /// if it treats each record separately.
    pub fn reads_parts(&self, node: usize) -> bool {
        let Some(consumer) = self.consumer(node) else {
            return false;
        };
        let op = &self.nodes()[consumer].op;
        if let Some(Read(format)) = op.of() {
            return format.is_divisible();
        }
        let function = op.of::<Interleave>().map(|interleave| &interleave.function);
        if let Some(FlatMap::Graph(body)) = function.or(op.of()) {
            return body.is_read_by_the_record();
        }
        op.passes_files() && self.reads_parts(consumer)
    }

    /// Returns whether this graph, the body of a function, reads the file given as its argument and
    /// treats each record separately.
    fn is_read_by_the_record(&self) -> bool {
        let mut arguments = self.nodes().iter().enumerate();
        let Some((argument, _)) = arguments.find(|(_, node)| node.op.is::<Argument>()) else {
            return false;
        };
        if arguments.any(|(_, node)| node.inputs.is_empty()) {
            return false;
        }
        let Some(mut above) = self.consumer(argument) else {
            return false;
        };
        let is_reader = self.nodes()[above]
            .op
            .of()
            .is_some_and(|Read(format)| format.is_divisible());
        while is_reader && above != self.output() {
            match self.consumer(above) {
                Some(next) if is_by_the_record(&self.nodes()[next].op) => above = next,
                Some(_) | None => return false,
            }
        }
        is_reader
    }

    /// Returns the only node that takes the elements of `node`, or `None` if several nodes do.
    fn consumer(&self, node: usize) -> Option<usize> {
        let takes = |inputs: &[u32]| inputs.iter().filter(|input| **input as usize == node).count();
        let mut consumers = self
            .nodes()
            .iter()
            .enumerate()
            .filter(|(_, other)| takes(&other.inputs) > 0);
        let (only, consumer) = consumers.next()?;
        (consumers.next().is_none() && takes(&consumer.inputs) == 1).then_some(only)
    }
}

/// Returns whether `op` turns each element into at most one element, without looking at other elements.
fn is_by_the_record(op: &Op) -> bool {
    op.is::<Map>() || op.is::<Filter>() || op.is::<Prefetch>() || op.options().is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::graph::{AUTO, Compression, Dataset, FixedLength, Params};

    use super::*;

    proptest! {
        #[test]
        fn a_part_round_trips_and_no_path_matches(
            path in "[a-z/\u{e9} \0.-]{0,8}",
            range in prop::option::of((any::<u64>(), any::<u64>())),
        ) {
            let range = range.filter(|(start, end)| start < end).map(|(start, end)| start..end);
            let part = FilePart { path: &path, range };
            if !path.contains('\0') {
                let written = part.written();
                prop_assert_eq!(FilePart::of(&written), part.clone());
            }
            prop_assert_eq!(FilePart::of(&path), FilePart { path: &path, range: None });
        }
    }

    #[test]
    fn parts_sort_after_their_file() {
        let part = |path, range| FilePart { path, range }.written();
        let texts = [
            part("a", Some(0..9)),
            part("a", Some(9..1 << 40)),
            part("a", Some(1 << 40..u64::MAX)),
            part("a.txt", None),
            part("b", Some(0..1)),
        ];
        assert!(texts.is_sorted());
    }

    #[test]
    fn files_are_read_in_parts_where_nobody_notices() {
        let files = || Dataset::files("/data/*");
        let fixed = |compression| FixedLength {
            record_bytes: 8,
            header_bytes: 0,
            footer_bytes: 0,
            compression,
        };
        let each = |body: fn(Dataset) -> Dataset| files().interleave(2, 1, body);
        for (dataset, expected) in [
            (files().text_lines(), true),
            (
                files()
                    .shuffle(9, None)
                    .repeat(None)
                    .text_lines()
                    .skip(1)
                    .batch(2, false),
                true,
            ),
            (files().fixed_length_records(fixed(Compression::None)), true),
            (files().fixed_length_records(fixed(Compression::Gzip)), false),
            (files().tfrecord(Compression::None), false),
            (files().take(2).text_lines(), false),
            (files().map("f", Params::none()).text_lines(), false),
            (files(), false),
            (each(Dataset::text_lines), true),
            (
                each(|file| file.text_lines().map("f", Params::none()).parallel(AUTO)),
                true,
            ),
            (each(|file| file.text_lines().skip(1)), false),
            (each(|file| file.text_lines().repeat(Some(2))), false),
            (
                each(|file| file.text_lines().concatenate(Dataset::files("x").text_lines())),
                false,
            ),
            (each(|file| file.repeat(Some(2)).text_lines()), false),
        ] {
            let graph = dataset.graph().unwrap();
            let source = graph.sources()[0];
            assert_eq!(graph.reads_parts(source), expected, "{graph:?}");
        }
    }
}
