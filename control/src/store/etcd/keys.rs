//! The keys of a service in etcd, all of which begin with the prefix of the service.
//!
//! | key | value |
//! |---|---|
//! | `leader` | the address of the leader, under the leader's lease |
//! | `cluster` | the fingerprints of the service's keys, and the version of the format |
//! | `shutdown` | the create revision of the leader that shut the service down the last time |
//! | `head` | the number of the latest commit, with the commit's own random number |
//! | `applied` | the number of the latest commit whose changes are all in `records` |
//! | `log/N/I` | part I of commit N |
//! | `records/KEY` | the first piece of a record, after the number of its pieces |
//! | `pieces/KEY/I` | piece I of a record that is too large for one value |

/// The names of the keys below one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        Keys {
            prefix: format!("{prefix}/"),
        }
    }

    fn named(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    pub(super) fn leader(&self) -> Vec<u8> {
        self.named("leader")
    }

    pub(super) fn cluster(&self) -> Vec<u8> {
        self.named("cluster")
    }

    pub(super) fn shutdown(&self) -> Vec<u8> {
        self.named("shutdown")
    }

    pub(super) fn head(&self) -> Vec<u8> {
        self.named("head")
    }

    pub(super) fn applied(&self) -> Vec<u8> {
        self.named("applied")
    }

    /// Returns the beginning of the keys of all records.
    pub(super) fn records(&self) -> Vec<u8> {
        self.named("records/")
    }

    pub(super) fn record(&self, key: &[u8]) -> Vec<u8> {
        [self.records().as_slice(), key].concat()
    }

    /// Returns the beginning of the keys of all further pieces.
    pub(super) fn pieces(&self) -> Vec<u8> {
        self.named("pieces/")
    }

    /// Returns the key of a further piece of a record. The length before the record's key keeps the pieces
    /// of a record apart from those of a record with a longer key.
    pub(super) fn piece(&self, key: &[u8], index: u32) -> Vec<u8> {
        let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
        [
            self.pieces().as_slice(),
            &length.to_be_bytes(),
            key,
            &index.to_be_bytes(),
        ]
        .concat()
    }

    /// Returns the record and the index of a piece's key, without [`pieces`](Keys::pieces).
    pub(super) fn parse_piece(rest: &[u8]) -> Option<(&[u8], u32)> {
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (key, index) = rest.split_last_chunk::<4>()?;
        (key.len() == length).then(|| (key, u32::from_be_bytes(*index)))
    }

    /// Returns the beginning of the keys of all commits.
    pub(super) fn log(&self) -> Vec<u8> {
        self.named("log/")
    }

    /// Returns the beginning of the keys of a commit. Commits are ordered by their numbers.
    pub(super) fn commit(&self, number: u64) -> Vec<u8> {
        self.named(&format!("log/{number:020}/"))
    }

    pub(super) fn part(&self, number: u64, index: usize) -> Vec<u8> {
        self.named(&format!("log/{number:020}/{index:08}"))
    }

    /// Returns the number of a part's commit from the part's key, without [`log`](Keys::log).
    pub(super) fn parse_part(rest: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(rest).ok()?;
        text.split_once('/')?.0.parse().ok()
    }
}

/// Returns the end of the range of all keys that begin with these bytes.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No key follows: etcd reads this as the end of all keys.
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_name_their_record() {
        let keys = Keys::new("a");
        let key = keys.piece(b"\x01x/y", 7);
        let rest = key.strip_prefix(keys.pieces().as_slice()).unwrap();
        assert_eq!(Keys::parse_piece(rest), Some((b"\x01x/y".as_slice(), 7)));
        assert_eq!(Keys::parse_piece(&rest[1..]), None);
    }

    #[test]
    fn commits_are_ordered_by_number() {
        let keys = Keys::new("a");
        assert!(keys.part(9, 3) < keys.part(10, 0));
        assert!(keys.part(9, 3) < end_of(&keys.commit(9)));
        let key = keys.part(12, 3);
        assert_eq!(
            Keys::parse_part(key.strip_prefix(keys.log().as_slice()).unwrap()),
            Some(12)
        );
        assert_eq!(end_of(b"a\xff"), b"b");
    }
}
