//! The choice of the best transport to a worker: in memory, else through shared memory, else over the
//! network.
//!
//! Pure: the caller provides the places of reader and worker, and the outcome of earlier attempts. Does not
//! connect.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use millstream_client::WorkerPlace;
use millstream_control::Whereabouts;

/// The place and the settings of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderPlace {
    /// The host and the process of the reader.
    pub(crate) whereabouts: Whereabouts,
    /// `true` if the reader may share memory with workers on its host.
    pub(crate) shares_memory: bool,
}

/// The chosen transport to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice<'a, L> {
    /// In memory: the worker is in this process.
    Memory(L),
    /// Through shared memory: the worker listens at this local socket. If the attempt fails, the reader uses
    /// the network, with [`WhyNotBetter::Failed`].
    SharedMemory(&'a str),
    /// Over the network, with the reason.
    Network(WhyNotBetter),
}

/// The reason why a link does not use a better transport, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhyNotBetter {
    /// The worker is on this host, but in another process.
    OtherProcess,
    /// The worker is on another host.
    OtherHost,
    /// The dispatcher does not know the worker's host, or this process cannot determine its own host.
    UnknownHost,
    /// The reader's settings forbid shared memory.
    SwitchedOff,
    /// The worker listens at no local socket.
    NotOffered,
    /// The attempt over the better transport failed.
    Failed(String),
}

impl fmt::Display for WhyNotBetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherProcess => f.write_str("other process"),
            Self::OtherHost => f.write_str("other host"),
            Self::UnknownHost => f.write_str("it is unknown whether the worker is on this host"),
            Self::SwitchedOff => f.write_str("shared memory is switched off for this reader"),
            Self::NotOffered => f.write_str(
                "the worker on this host shares no memory: it is switched off, or the worker's version or system does not support it",
            ),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Chooses the best transport to a worker. `local` is the worker if it runs in this process.
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
