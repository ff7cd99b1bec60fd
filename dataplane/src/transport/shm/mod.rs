//! Links two processes of one host and one user. Elements are located in memory that both processes map, and
//! are not copied (D9).
//!
//! - `address` is the address of a worker's socket and its text form (pure).
//! - [`arena`] is a worker's side of a task's shared memory: an allocator of slots.
//! - [`budget`] limits the memory that all arenas of a worker hold together.
//! - `client` and `worker` are the two ends of a link.
//! - `channel` is the socket of one link: it carries datagrams with descriptors and shows the end of the
//!   other process.
//! - `control` is the memory that carries a link's rings, viewed as words.
//! - `datagram` defines the messages on the socket (pure).
//! - `directory` prepares the directory of sockets that are files.
//! - [`doorbell`] is a word on which a thread sleeps until the other process wakes the thread (unsafe).
//! - `frame` defines the frames of a ring (pure).
//! - `greeting` exchanges the first messages on a socket, and reports why a reader gets no link.
//! - `lent` keeps the packs of one reader until the reader returns them or exits.
//! - `line` is the socket of a link in use.
//! - `listen` is a worker's listening socket: it decides which processes may connect, and how many.
//! - `layout` defines the offsets in the memory that carries a link's rings (pure).
//! - `leases` records the packs that a worker lent to its reader (pure).
//! - [`map`] maps memory behind a descriptor into this process (unsafe).
//! - `pages` records which pages of an arena are in use, and which hold memory (pure).
//! - `peer` identifies the process at the other end.
//! - `pulse` decides whether the other process still runs (pure).
//! - `returns` is the ring through which any thread of the reader returns leases (pure).
//! - `ring` carries frames from one process to the other, in order (pure).
//! - `share` computes how much of an arena one reader may keep.
//! - `socket` creates the sockets of both ends.
//! - [`view`] is a reader's side of an arena: slots in memory that a worker handed over.
//! - `wait` keeps the flags of sleeping threads, so that only a wake-up of a sleeper costs a system call
//!   (pure).
//! - `words` are the atomics in shared memory.

mod address;
pub mod arena;
pub mod budget;
mod channel;
mod client;
mod control;
mod datagram;
mod directory;
pub mod doorbell;
mod frame;
#[cfg(all(test, not(feature = "loom")))]
mod fuzz;
mod greeting;
mod layout;
mod leases;
mod lent;
mod line;
mod listen;
pub mod map;
mod pages;
mod peer;
mod pulse;
mod returns;
mod ring;
mod share;
mod socket;
#[cfg(test)]
mod tests;
pub mod view;
mod wait;
mod words;
mod worker;

pub use address::{ADDRESS_BYTES_MAX, AddressError, ShmAddress};
pub use arena::{Arena, ArenaId, PageKind};
pub use budget::ArenaBudget;
pub use channel::{Channel, Received};
pub use client::connect;
pub use datagram::{
    ArenaAnnouncement, ClientHello, Close, CloseCode, ControlSizes, DATAGRAM_BYTES_MAX, Datagram,
    DatagramError, FDS_MAX, SHM_VERSION, WorkerHello,
};
pub use doorbell::Doorbell;
pub use greeting::{ConnectError, GREETING_DEADLINE, GreetError, Offer, connect as greet};
pub use layout::{
    ControlLayout, FRAME_WORDS_MAX, LEASES_MAX, LINE_WORDS, RING_WORDS, ReturnsPlace, RingPlace,
};
pub use leases::{LeaseError, LeaseNumber, Leases};
pub use listen::{BindError, Incoming, LINKS_MAX, Listener, ListenerConfig};
pub use map::{MapError, Mapping};
pub use peer::{Peer, PeerError};
pub use returns::{ReturnReceiver, ReturnSender};
pub use ring::{RingError, RingReceiver, RingSender};
pub use view::{ArenaView, OutOfArena};
pub use words::{Word, Words};
pub use worker::accept;
