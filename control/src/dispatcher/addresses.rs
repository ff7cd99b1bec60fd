//! The fixed list of workers: who belongs to it, and where each address has a port that is only known when
//! the worker comes.
//!
//! Refuses to know who lives: the caller that gives places away says which are held.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

/// Bytes of a name at most: of a job, a version, an address, or the person who ends the service.
pub const NAME_BYTES_MAX: usize = 1024;

/// The workers that a service is made of, in an order that numbers them from 0.
///
/// An entry is an address as a worker registers it, `host:port`. Where the port is not known beforehand it is
/// `host:%port%`, `host:%port_NAME%` or `host` alone: such an entry belongs to one worker on that host,
/// whichever comes first. A host may stand in several. Empty, which is the default: any worker may come, and
/// static sharding is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerAddresses {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    text: String,
    /// The host, where any port will do.
    any_port_of: Option<String>,
}

/// The degree to which a place suits an address. The first suits best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// A worker at this very address has or had it.
    Own,
    /// No worker has had it.
    Free,
    /// The worker that had it is dead.
    Left,
}

impl WorkerAddresses {
    /// The list of these addresses, in their order.
    ///
    /// # Errors
    /// [`WorkerAddressError`]: an address that no worker can have, or one that stands twice though only one
    /// worker can have it.
    pub fn new<T: Into<String>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<WorkerAddresses, WorkerAddressError> {
        let mut entries: Vec<Entry> = Vec::new();
        for text in texts {
            let entry = Entry::new(text.into())?;
            if entries.len() == ADDRESSES_MAX {
                return Err(WorkerAddressError::TooMany);
            }
            if entry.any_port_of.is_none() && entries.contains(&entry) {
                return Err(WorkerAddressError::Repeated(entry.text));
            }
            entries.push(entry);
        }
        Ok(WorkerAddresses { entries })
    }

    /// Returns the number of workers.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns whether there is no list, so that any worker may come.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.text.as_str())
    }

    /// Returns whether the worker at `address` may have the place `index`.
    pub(super) fn admits(&self, index: u64, address: &str) -> bool {
        let index = usize::try_from(index).ok();
        index
            .and_then(|index| self.entries.get(index))
            .is_some_and(|entry| entry.admits(address))
    }

    /// The place for a worker at `address`. `claim` says how it stands with a place; `None`: another, living
    /// worker has it. An entry that names the port comes before those that leave it open.
    pub(super) fn place(&self, address: &str, claim: impl Fn(u64) -> Option<Claim>) -> Result<u64, NoPlace> {
        let mut best: Option<((Claim, bool), u64)> = None;
        let mut is_known = false;
        for (index, entry) in (0..).zip(&self.entries) {
            if !entry.admits(address) {
                continue;
            }
            is_known = true;
            if let Some(claim) = claim(index) {
                let rank = (claim, entry.any_port_of.is_some());
                if best.is_none_or(|(known, _)| rank < known) {
                    best = Some((rank, index));
                }
            }
        }
        match best {
            Some((_, index)) => Ok(index),
            None if is_known => Err(NoPlace::Taken),
            None => Err(NoPlace::Unlisted),
        }
    }
}

/// The entries with commas between them, cut to a readable length.
impl fmt::Display for WorkerAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, entry) in self.entries.iter().take(SHOWN_MAX).enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}", entry.text)?;
        }
        match self.entries.len().checked_sub(SHOWN_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

/// Why a worker has no place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No entry admits it.
    Unlisted,
    /// Living workers have those that do.
    Taken,
}

impl Entry {
    fn new(text: String) -> Result<Entry, WorkerAddressError> {
        let unusable = |c: char| c.is_whitespace() || c.is_control();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(unusable) {
            return Err(WorkerAddressError::Unusable(text));
        }
        let (host, port) = split_port(&text);
        let any_port_of = match port {
            None => Some(host.to_owned()),
            Some(port) => port.starts_with('%').then(|| host.to_owned()),
        };
        Ok(Entry { text, any_port_of })
    }

    fn admits(&self, address: &str) -> bool {
        if self.text == address {
            return true;
        }
        let (host, port) = split_port(address);
        port.is_some() && self.any_port_of.as_deref() == Some(host)
    }
}

/// Why a text cannot stand in the list. The caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerAddressError {
    /// No worker has such an address.
    #[error("{0:?} is no worker's address: write `host:port`, or `host:%port%` where the port is not known")]
    Unusable(String),
    /// The list names one worker twice.
    #[error("{0} stands twice in the list of workers")]
    Repeated(String),
    /// The list is too long.
    #[error("the list of workers has more than {ADDRESSES_MAX} entries")]
    TooMany,
}

/// Entries of a list: as many workers as a dispatcher takes by default.
const ADDRESSES_MAX: usize = 10_000;
/// Entries that a message shows.
const SHOWN_MAX: usize = 16;

/// Host and port of an address. The port is what stands behind the last colon, if it is a word or `%port%` or
/// `%port_NAME%`; else there is none, as in `[::1]` or `/job/worker:/task/0`.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let is_word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_port = |port: &&str| match port.strip_prefix('%') {
        None => !port.is_empty() && is_word(port),
        Some(open) => open.strip_suffix('%').is_some_and(|name| {
            name == "port"
                || name
                    .strip_prefix("port_")
                    .is_some_and(|name| !name.is_empty() && is_word(name))
        }),
    };
    match text.rsplit_once(':').filter(|(_, port)| is_port(port)) {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_port_is_a_word_or_placeholder() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("http://localhost", "http://localhost", None),
            ("localhost:1234", "localhost", Some("1234")),
            ("http://localhost:1234", "http://localhost", Some("1234")),
            ("http://localhost:%port%", "http://localhost", Some("%port%")),
            ("/worker/task/0", "/worker/task/0", None),
            ("worker:/worker/task/0", "worker:/worker/task/0", None),
            ("/worker/task/0:worker", "/worker/task/0", Some("worker")),
            ("/worker/task/0:%port%", "/worker/task/0", Some("%port%")),
            (
                "/worker/task/0:%port_worker%",
                "/worker/task/0",
                Some("%port_worker%"),
            ),
            ("127.0.0.1", "127.0.0.1", None),
            ("127.0.0.1:8000", "127.0.0.1", Some("8000")),
            ("[::1]", "[::1]", None),
            ("http://[::1]", "http://[::1]", None),
            ("[::1]:23456", "[::1]", Some("23456")),
            ("http://[::1]:23456", "http://[::1]", Some("23456")),
            ("http://[::1]:%port_name%", "http://[::1]", Some("%port_name%")),
            (
                "http://ipv6:[1080:0:0:0:8:800:200C:417a]",
                "http://ipv6:[1080:0:0:0:8:800:200C:417a]",
                None,
            ),
            (
                "http://ipv6:[1080:0:0:0:8:800:200C:417a]:worker",
                "http://ipv6:[1080:0:0:0:8:800:200C:417a]",
                Some("worker"),
            ),
            (":worker:task:0:%port%", ":worker:task:0", Some("%port%")),
            ("http://ipv6:[]", "http://ipv6:[]", None),
            ("host:%port", "host:%port", None),
            ("host:%port_%", "host:%port_%", None),
            ("host:%other%", "host:%other%", None),
            ("host:", "host:", None),
            ("", "", None),
        ] {
            assert_eq!(split_port(text), (host, port), "{text}");
        }
    }

    #[test]
    fn mistakes_in_the_list_are_named() {
        let message = |texts: &[&str]| {
            WorkerAddresses::new(texts.iter().copied())
                .unwrap_err()
                .to_string()
        };
        assert!(message(&["a:1", ""]).contains("no worker's address"));
        assert!(message(&["a 1"]).contains("\"a 1\""));
        assert!(message(&["a:1", "b:1", "a:1"]).contains("a:1 stands twice"));
        assert!(WorkerAddresses::new(["a:%port%", "a:%port%", "a", "a"]).is_ok());
        let many: Vec<String> = (0..=ADDRESSES_MAX).map(|number| format!("a:{number}")).collect();
        assert_eq!(
            WorkerAddresses::new(many).unwrap_err(),
            WorkerAddressError::TooMany
        );
    }

    #[test]
    fn an_open_port_admits_its_whole_host() {
        let list = WorkerAddresses::new([
            "a:1",
            "b:worker",
            "c:%port%",
            "[::1]:%port_x%",
            "/job/d",
            "e",
            "[::2]:3",
            "http://f:%port%",
            ":job:g:%port%",
        ])
        .unwrap();
        for (address, expected) in [
            ("a:1", Ok(0)),
            ("a:2", Err(NoPlace::Unlisted)),
            ("b:worker", Ok(1)),
            ("b:7", Err(NoPlace::Unlisted)),
            ("c:7", Ok(2)),
            ("c", Err(NoPlace::Unlisted)),
            ("[::1]:7", Ok(3)),
            ("/job/d:%port%", Ok(4)),
            ("/job/d:8", Ok(4)),
            ("e", Ok(5)),
            ("[::2]:3", Ok(6)),
            ("[::2]:4", Err(NoPlace::Unlisted)),
            ("http://f:9", Ok(7)),
            ("f:9", Err(NoPlace::Unlisted)),
            (":job:g:9", Ok(8)),
            ("x:1", Err(NoPlace::Unlisted)),
        ] {
            assert_eq!(list.place(address, |_| Some(Claim::Free)), expected, "{address}");
        }
        assert_eq!(list.place("c:8", |_| None), Err(NoPlace::Taken));
    }

    proptest! {
        /// Workers of hosts `a` to `c` come and go on any ports: nobody has another's place, and who finds
        /// none finds all places of its host in living hands.
        #[test]
        fn no_two_living_workers_have_one_place(
            entries in prop::collection::vec((0..3usize, prop::option::of(0..4u8)), 1..6),
            moves in prop::collection::vec((0..3usize, 0..4u8, any::<bool>()), 0..40),
        ) {
            let host = |host: usize| ["a", "b", "c"][host];
            let texts = entries.iter().map(|(at, port)| match port {
                Some(port) => format!("{}:{port}", host(*at)),
                None => format!("{}:%port%", host(*at)),
            });
            let mut texts: Vec<String> = texts.collect();
            texts.dedup_by(|a, b| a == b && !a.contains('%'));
            let Ok(list) = WorkerAddresses::new(texts.clone()) else { return Ok(()) };
            // Address and whether it lives, by place.
            let mut held: BTreeMap<u64, (String, bool)> = BTreeMap::new();
            for (at, port, comes) in moves {
                let address = format!("{}:{port}", host(at));
                if !comes {
                    held.values_mut().filter(|(known, _)| *known == address).for_each(|place| place.1 = false);
                    continue;
                }
                let claim = |index: u64| match held.get(&index) {
                    None => Some(Claim::Free),
                    Some((known, _)) if *known == address => Some(Claim::Own),
                    Some((_, lives)) => (!lives).then_some(Claim::Left),
                };
                match list.place(&address, claim) {
                    Ok(index) => {
                        prop_assert!(list.admits(index, &address));
                        let before = held.insert(index, (address.clone(), true));
                        prop_assert!(before.is_none_or(|(known, lives)| known == address || !lives));
                    }
                    Err(NoPlace::Unlisted) => prop_assert!((0..list.len()).all(|index| !list.admits(index, &address))),
                    Err(NoPlace::Taken) => prop_assert!(
                        (0..list.len())
                            .filter(|index| list.admits(*index, &address))
                            .all(|index| held.get(&index).is_some_and(|(_, lives)| *lives))
                    ),
                }
            }
        }
    }
}
