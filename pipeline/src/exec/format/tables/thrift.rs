//! A check of the counts that a Parquet file states, before its decoder relies on them.
//!
//! A decoder allocates memory and stack for as many items as a file states. This check compares a few
//! numbers, in Thrift's compact protocol, with limits, and reads no other fields.

/// Maximum depth of nested structs that are skipped.
const DEPTH_MAX: usize = 16;
/// Maximum depth of nested groups of columns. Columns of the supported types are nested far less deeply.
const SCHEMA_DEPTH_MAX: usize = 100;
/// Maximum uncompressed bytes of a page.
pub(crate) const PAGE_BYTES_MAX: i64 = 512 << 20;
/// Maximum uncompressed bytes of a page whose growth exceeds [`GROWTH_MAX`]. A page of equal values grows by
/// such a factor, but is small.
const GROWN_PAGE_BYTES_MAX: i64 = 16 << 20;
/// Maximum factor by which a page grows when it is decompressed: the largest factor that gzip reaches.
const GROWTH_MAX: i64 = 1000;

/// The type numbers of fields and of list items.
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Checks the schema in a file's metadata. The schema must be a tree with as many columns as it states, and
/// with a depth within the limit.
pub(crate) fn check_schema(metadata: &[u8]) -> Result<(), String> {
    let corrupt = || "the file is corrupt: its schema cannot be read".to_owned();
    let mut skim = Skim(metadata);
    let children = skim.schema().ok_or_else(corrupt)?;
    // For each open group, the number of columns that are still missing.
    let mut open: Vec<usize> = Vec::new();
    for (index, count) in children.iter().enumerate() {
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        let count = usize::try_from(*count).map_err(|_| corrupt())?;
        if count > children.len() - index {
            return Err("the file is corrupt: the schema has fewer columns than it states".to_owned());
        }
        if count > 0 {
            open.push(count);
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err(format!(
                "the schema has groups more than {SCHEMA_DEPTH_MAX} deep, which is the limit"
            ));
        }
    }
    Ok(())
}

/// Checks the sizes in a page's header. `header` has the first bytes of the header.
pub(crate) fn check_page(header: &[u8]) -> Result<(), String> {
    let sizes = Skim(header).page_bytes();
    let sizes = sizes.filter(|(uncompressed, compressed)| *uncompressed >= 0 && *compressed >= 0);
    let (uncompressed, compressed) =
        sizes.ok_or("the file is corrupt: the header of a page cannot be read")?;
    if uncompressed > PAGE_BYTES_MAX {
        return Err(format!(
            "a page has {uncompressed} bytes uncompressed, the limit is {PAGE_BYTES_MAX}: write smaller pages"
        ));
    }
    if uncompressed > GROWN_PAGE_BYTES_MAX && uncompressed / GROWTH_MAX > compressed {
        return Err(format!(
            "a page of {compressed} bytes has {uncompressed} bytes uncompressed, the limit is {GROWTH_MAX} times as many for more than \
             {GROWN_PAGE_BYTES_MAX}: write smaller pages"
        ));
    }
    Ok(())
}

/// The bytes that are left to read. A method returns `None` if it cannot read a value; the caller must not
/// use the reader after a `None`.
struct Skim<'a>(&'a [u8]);

impl Skim<'_> {
    /// Reads the number of children of each element of the schema: field 5 of the elements in field 2 of the
    /// metadata.
    fn schema(&mut self) -> Option<Vec<i64>> {
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            if id != 2 {
                self.pass(kind, DEPTH_MAX)?;
                continue;
            }
            let (count, STRUCT) = self.list()? else {
                return None;
            };
            let mut children = Vec::new();
            for _ in 0..count {
                let (mut id, mut found) = (0, 0);
                while let Some(kind) = self.field(&mut id)? {
                    match (id, kind) {
                        (5, 5) => found = self.integer()?,
                        _ => self.pass(kind, DEPTH_MAX)?,
                    }
                }
                children.push(found);
            }
            return Some(children);
        }
        None
    }

    /// Reads fields 2 and 3 of a page's header: the uncompressed and the compressed size in bytes.
    fn page_bytes(&mut self) -> Option<(i64, i64)> {
        let (mut id, mut uncompressed) = (0, None);
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind, uncompressed) {
                (2, 5, None) => uncompressed = Some(self.integer()?),
                (3, 5, Some(uncompressed)) => return Some((uncompressed, self.integer()?)),
                // Writers write fields in the order of their numbers.
                (1, 5, None) => self.pass(kind, DEPTH_MAX)?,
                _ => return None,
            }
        }
        None
    }

    /// Reads the type of the next field of a struct, and sets `id` to its number. Returns `Some(None)` at the
    /// end of the struct.
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *id = match head >> 4 {
            0 => self.integer()?,
            step => *id + i64::from(step),
        };
        Some(Some(head & 0xf))
    }

    /// Reads the number of items of a list, and their type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            0xf => self.number()?,
            count => u64::from(count),
        };
        Some((count, head & 0xf))
    }

    /// Skips the value of a field.
    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The type of a boolean field contains its value.
            1 | 2 => Some(()),
            3 => self.skip(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.skip(8),
            BINARY => {
                let length = self.number()?;
                self.skip(length)
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| match kind {
                    1 | 2 => self.skip(1),
                    _ => self.pass(kind, depth.checked_sub(1)?),
                })
            }
            STRUCT => {
                let (mut id, depth) = (0, depth.checked_sub(1)?);
                while let Some(kind) = self.field(&mut id)? {
                    self.pass(kind, depth)?;
                }
                Some(())
            }
            // Parquet has no maps; the remaining types do not exist.
            _ => None,
        }
    }

    /// Reads a signed number.
    fn integer(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a number of up to ten bytes with seven bits each, lowest bits first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns metadata with a version and a schema whose elements have `children` children each.
    fn metadata(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, children.len() as u8];
        for count in children {
            // Each element has a name and the number of its children.
            bytes.extend([0x48, 1, b'a', 0x15, 2 * count, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_schema_has_its_count_and_limited_depth() {
        check_schema(&metadata(&[2, 0, 1, 0])).unwrap();
        assert!(
            check_schema(&metadata(&[60, 0]))
                .unwrap_err()
                .contains("fewer columns")
        );
        let mut chain = vec![1; SCHEMA_DEPTH_MAX];
        chain.push(0);
        check_schema(&metadata(&chain)).unwrap();
        chain.insert(0, 1);
        assert!(check_schema(&metadata(&chain)).unwrap_err().contains("deep"));
        assert!(check_schema(&[]).unwrap_err().contains("corrupt"));
    }

    #[test]
    fn an_absurd_page_allocates_nothing() {
        // The headers state a data page of 300 bytes, and a page of one byte less than 2 GiB.
        check_page(&[0x15, 0, 0x15, 0xd8, 4, 0x15, 2]).unwrap();
        let large = [0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0xf, 0x15, 2];
        assert!(check_page(&large).unwrap_err().contains("the limit is"));
        assert!(check_page(&[0x35, 0]).unwrap_err().contains("corrupt"));
        // A page of one byte that grows to 32 MiB is refused; a page that grows to 4 MiB may consist of equal
        // values.
        let grown = [0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x20, 0x15, 2];
        assert!(check_page(&grown).unwrap_err().contains("1000 times"));
        check_page(&[0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x4, 0x15, 2]).unwrap();
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u8..30) {
            check_schema(&bytes).ok();
            check_page(&bytes).ok();
            let mut damaged = metadata(&vec![1; count.into()]);
            for (at, byte) in bytes.iter().enumerate().skip(9) {
                if let Some(place) = damaged.get_mut(at * 3) {
                    *place = *byte;
                }
            }
            check_schema(&damaged).ok();
        }
    }
}
