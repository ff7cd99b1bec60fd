//! Between processes of one host and one user: elements lie in memory that both have mapped, and nothing is
//! copied (D9).
//!
//! - `address`: where a worker listens, as its readers are told (pure)
//! - [`arena`]: a worker's side of a task's memory, as an allocator of slots
//! - [`budget`]: what all arenas of a worker hold together
//! - `client`, `worker`: the ends of a link
//! - `channel`: the socket of one link: datagrams with descriptors, and the end of the other process
//! - `control`: the memory that carries a link's rings, as words
//! - `datagram`: what is said over it (pure)
//! - `directory`: where sockets are files
//! - [`doorbell`]: where a thread sleeps until the other process wakes it (unsafe)
//! - `frame`: what crosses a ring (pure)
//! - `greeting`: the first words on a socket, and what a reader is told that gets no link
//! - `lent`: the packs that one reader has, until they come back or it is gone
//! - `line`: the socket of a link in use
//! - `listen`: a worker's socket: who may come in, and how many
//! - `layout`: what lies where in the memory that carries a link's rings (pure)
//! - `leases`: what a worker lent to its reader (pure)
//! - [`map`]: memory behind a descriptor, mapped into this process (unsafe)
//! - `pages`: which pages of an arena are in use, and which hold memory (pure)
//! - `peer`: whose process is at the other end
//! - `pulse`: whether the other process still runs (pure)
//! - `returns`: how the reader gives back what it was lent, from any of its threads (pure)
//! - `ring`: frames from one process to the other, in order (pure)
//! - `share`: what one reader may keep of an arena
//! - `socket`: how sockets of either end are made
//! - [`view`]: a reader's side of an arena: slots in memory that a worker handed over
//! - `wait`: who sleeps, so that only a sleeper costs a system call (pure)
//! - `words`: the atomics that everything shared is made of

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
