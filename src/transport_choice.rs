//! The choice of the transport that reaches a worker best: in memory, else through shared memory, else over
//! the network.
//!
//! Pure: the caller tells where both are and what was tried. Does not connect.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use millstream_client::WorkerPlace;
use millstream_control::Whereabouts;

/// The place and the wishes of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderPlace {
    /// The host and process of the reader.
    pub(crate) whereabouts: Whereabouts,
    /// Whether it may share memory with workers of its host.
    pub(crate) shares_memory: bool,
}

/// The way to reach a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice<'a, L> {
    /// The worker is in this process: this one.
    Memory(L),
    /// The worker listens at this local socket. If that fails, the network is used, with
    /// [`WhyNotBetter::Failed`].
    SharedMemory(&'a str),
    /// Over the network.
    Network(WhyNotBetter),
}

/// Why a link is not by a better transport, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhyNotBetter {
    /// The worker is on this host, and in another process.
    OtherProcess,
    /// The worker is on another host.
    OtherHost,
    /// The dispatcher does not say where the worker is, or this process cannot tell where itself is.
    UnknownHost,
    /// This reader was told not to.
    SwitchedOff,
    /// The worker listens at no local socket.
    NotOffered,
    /// The better transport was tried, and failed.
    Failed(String),
}

impl fmt::Display for WhyNotBetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherProcess => f.write_str("other process"),
            Self::OtherHost => f.write_str("other host"),
            Self::UnknownHost => f.write_str("it is not known whether the worker is on this host"),
            Self::SwitchedOff => f.write_str("this reader was told not to share memory"),
            Self::NotOffered => f.write_str(
                "the worker on this host shares no memory: it was told not to, or its version or system cannot",
            ),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// The best way to a worker. `local` is what was found of it among the workers of this process.
pub(crate) fn choose<L>(reader: ReaderPlace, worker: &WorkerPlace, local: Option<L>) -> Choice<'_, L> {
    if let Some(local) = local {
        return Choice::Memory(local);
    }
    if !reader.whereabouts.is_same_host(&worker.whereabouts) {
        let are_known = reader.whereabouts.host.is_some() && worker.whereabouts.host.is_some();
        return Choice::Network(if are_known {
            WhyNotBetter::OtherHost
        } else {
            WhyNotBetter::UnknownHost
        });
    }
    match &worker.local_socket {
        _ if !reader.shares_memory => Choice::Network(WhyNotBetter::SwitchedOff),
        Some(socket) => Choice::SharedMemory(socket),
        None => Choice::Network(WhyNotBetter::NotOffered),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reader(host: Option<u64>, shares_memory: bool) -> ReaderPlace {
        let whereabouts = Whereabouts {
            host,
            process: Some(1),
        };
        ReaderPlace {
            whereabouts,
            shares_memory,
        }
    }

    fn worker(host: Option<u64>, local_socket: Option<&str>) -> WorkerPlace {
        WorkerPlace {
            whereabouts: Whereabouts {
                host,
                process: Some(2),
            },
            local_socket: local_socket.map(str::to_owned),
            ..WorkerPlace::at("one:1")
        }
    }

    #[test]
    fn the_best_link_is_chosen_with_reasons() {
        let socket = Some("@socket");
        for (here, shares, there, offered, expected) in [
            (Some(7), true, Some(7), socket, Choice::SharedMemory("@socket")),
            (
                Some(7),
                true,
                Some(7),
                None,
                Choice::Network(WhyNotBetter::NotOffered),
            ),
            (
                Some(7),
                false,
                Some(7),
                socket,
                Choice::Network(WhyNotBetter::SwitchedOff),
            ),
            (
                Some(7),
                false,
                Some(7),
                None,
                Choice::Network(WhyNotBetter::SwitchedOff),
            ),
            (
                Some(7),
                true,
                Some(8),
                None,
                Choice::Network(WhyNotBetter::OtherHost),
            ),
            (
                Some(7),
                false,
                Some(8),
                None,
                Choice::Network(WhyNotBetter::OtherHost),
            ),
            (
                None,
                true,
                Some(7),
                None,
                Choice::Network(WhyNotBetter::UnknownHost),
            ),
            (
                Some(7),
                true,
                None,
                None,
                Choice::Network(WhyNotBetter::UnknownHost),
            ),
        ] {
            let worker = worker(there, offered);
            assert_eq!(choose(reader(here, shares), &worker, None::<()>), expected);
        }
    }

    proptest! {
        #[test]
        fn memory_comes_first_and_stays_on_its_host(
            here: Option<u64>, there: Option<u64>, same: bool, shares: bool, socket: Option<String>, in_process: bool,
        ) {
            let there = if same { here } else { there };
            let worker = worker(there, socket.as_deref());
            match choose(reader(here, shares), &worker, in_process.then_some(())) {
                Choice::Memory(()) => prop_assert!(in_process),
                Choice::SharedMemory(chosen) => {
                    prop_assert!(!in_process && shares && here.is_some() && here == there);
                    prop_assert_eq!(Some(chosen), socket.as_deref());
                }
                Choice::Network(why) => {
                    prop_assert!(!in_process && !why.to_string().is_empty());
                    let is_near = here.is_some() && here == there;
                    prop_assert!(!(is_near && shares && socket.is_some()));
                }
            }
        }
    }
}
