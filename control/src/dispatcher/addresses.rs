//! The fixed list of workers, which may leave a port open until its worker registers.
//!
//! This file does not know which workers live. The caller that assigns places passes in the places that are
//! taken.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

/// Maximum bytes of a name: of a job, a version, an address, or the process that shuts the service down.
pub const NAME_BYTES_MAX: usize = 1024;

/// The fixed list of a service's workers, numbered from 0 in their order.
///
/// An entry is an address as a worker registers it, `host:port`. Three forms leave the port open:
/// `host:%port%`, `host:%port_NAME%` and `host` alone. An entry with an open port belongs to the first
/// worker of that host that claims the entry. Several entries may name one host. With an empty list, which
/// is the default, any worker may register, and static sharding is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerAddresses {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    text: String,
    /// The host of an entry that admits any port; `None` for an entry with a fixed port.
    any_port_of: Option<String>,
}

/// The suitability of a place for an address, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// The place belongs or belonged to a worker at the same address.
    Own,
    /// The place has never belonged to a worker.
    Free,
    /// The place belonged to a worker that is dead.
    Left,
}

impl WorkerAddresses {
    /// Returns the list of these addresses, in their order.
    ///
    /// # Errors
    /// [`WorkerAddressError`]: a worker cannot have one of the addresses, or an address with a fixed port
    /// is repeated.
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

    /// Returns whether the list is empty, so that any worker may register.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries with their original text.
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

    /// Returns the best place for a worker at `address`. `claim` rates a place for this address, and
    /// returns `None` if another living worker has the place. Among equal claims, an entry with a fixed
    /// port is preferred to an entry with an open port.
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

/// Writes the entries with commas between them, cut to a readable length.
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

/// The reason for which a worker has no place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No entry admits the worker's address.
    Unlisted,
    /// Living workers have all places that admit the address.
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

/// The error of an address that cannot be in the list; a mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerAddressError {
    /// A text that cannot be the address of a worker.
    #[error("{0:?} is no worker's address: write `host:port`, or `host:%port%` for an open port")]
    Unusable(String),
    /// An address that the list repeats although only one worker can have it.
    #[error("{0} stands twice in the list of workers")]
    Repeated(String),
    /// A list that is too long.
    #[error("the list of workers has more than {ADDRESSES_MAX} entries")]
    TooMany,
}

/// Maximum number of entries, which equals the default limit of a dispatcher's workers.
const ADDRESSES_MAX: usize = 10_000;
/// Maximum number of entries that a message shows.
const SHOWN_MAX: usize = 16;

/// Splits an address into host and port. The port follows the last colon and is a word, `%port%` or
/// `%port_NAME%`. An address like `[::1]` or `/job/worker:/task/0` has no port.
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
        /// Workers of hosts `a` to `c` start and stop on any ports. No worker takes the place of another
        /// living worker. A worker without a place finds all places of its host taken by living workers.
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
            // The address of each place's last worker, and whether that worker lives.
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
