//! Parts of hostile ends of a link: a socket that sends any message, and memory that holds any bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};

use super::links::WATCHDOG;
use crate::transport::LinkLost;
use crate::transport::shm::channel::{self, Channel};
use crate::transport::shm::control::Control;
use crate::transport::shm::datagram::{Close, Datagram};
use crate::transport::shm::layout::{ControlLayout, FRAME_WORDS_MAX};
use crate::transport::shm::words::Words;

/// An action that either end can perform, although a correct end would not.
#[derive(Debug, Clone)]
pub(super) enum Mischief {
    /// Writes a word of the control memory.
    Scribble { at: usize, value: u64 },
    /// Sends this number of rings without a reason.
    Flood { rings: usize },
    /// Sends these bytes as a datagram, with this number of descriptors.
    Say { bytes: Vec<u8>, fds: usize },
    /// Shuts down the sending side of the socket.
    ShutDown,
}

/// Draws offsets in the control memory: mostly words with a meaning, sometimes any word.
fn places() -> impl Strategy<Value = usize> {
    let layout = ControlLayout::STANDARD;
    let rings = [layout.down, layout.up];
    let mut named = vec![layout.returns.tail, layout.returns.receiver_waits];
    named.extend(rings.iter().flat_map(|ring| {
        let sleeps = [ring.receiver_waits, ring.receiver_dozes, ring.sender_waits];
        [ring.tail, ring.head].into_iter().chain(sleeps)
    }));
    prop_oneof![
        3 => prop::sample::select(named),
        2 => (prop::sample::select(vec![layout.down.first, layout.up.first, layout.returns.first]), 0..64_usize)
            .prop_map(|(first, more)| first + more),
        1 => 0..layout.words(),
    ]
}

/// Draws numbers: mostly numbers near meaningful values, sometimes any number.
pub(super) fn values() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..80_u64,
        1 => (0..3_u64, 0..4_u64).prop_map(|(high, low)| high << 32 | low),
        1 => (0..4_u64).prop_map(|more| FRAME_WORDS_MAX as u64 - 2 + more),
        1 => (0..3_u64).prop_map(|less| u64::MAX - less),
        1 => any::<u64>(),
    ]
}

pub(super) fn mischief() -> impl Strategy<Value = Mischief> {
    prop_oneof![
        6 => (places(), values()).prop_map(|(at, value)| Mischief::Scribble { at, value }),
        2 => (1..300_usize).prop_map(|rings| Mischief::Flood { rings }),
        1 => (prop::collection::vec(any::<u8>(), 1..40), 0..3_usize).prop_map(|(bytes, fds)| Mischief::Say { bytes, fds }),
        1 => Just(Mischief::ShutDown),
    ]
}

impl Mischief {
    pub(super) fn commit(self, channel: &Channel, control: &Control) {
        match self {
            Self::Scribble { at, value } => control.words()[at].store(value, Relaxed),
            Self::Flood { rings } => {
                for _ in 0..rings {
                    say(channel, &Datagram::Ring.to_bytes().unwrap(), &[]);
                }
            }
            Self::Say { bytes, fds } => {
                let nothing = nothing();
                say(channel, &bytes, &vec![nothing.as_fd(); fds]);
            }
            Self::ShutDown => {
                // An error means that the socket has no peer any more.
                let _ = rustix::net::shutdown(channel, rustix::net::Shutdown::Write);
            }
        }
    }
}

/// Sends a datagram unchanged, if the socket has room and a peer.
pub(super) fn say(channel: &Channel, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![std::mem::MaybeUninit::uninit(); 256];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    if fds.len() > 1 {
        // A channel sends at most one descriptor, so the test sends this datagram itself.
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(fds)));
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        let _ = rustix::net::sendmsg(channel, &[std::io::IoSlice::new(bytes)], &mut control, flags);
    } else {
        let _ = channel::send(channel.as_fd(), bytes, fds);
    }
}

/// Opens a file that is not shared memory.
pub(super) fn nothing() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

/// Makes memory of a size without seals.
pub(super) fn unsealed(bytes: u64) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    fd
}

/// Returns the reason with which the other end closed the link. Discards all other messages.
pub(super) async fn goodbye(channel: &Channel) -> Close {
    let told = async {
        loop {
            match channel
                .recv()
                .await
                .expect("every datagram of an honest end is valid")
            {
                Some(received) => {
                    if let Datagram::Close(close) = received.datagram {
                        return close;
                    }
                }
                None => panic!("the end closed the socket without a reason"),
            }
        }
    };
    tokio::time::timeout(WATCHDOG, told)
        .await
        .expect("the end closes the link in time")
}

/// Steps an end until its link is lost.
pub(super) async fn until_lost(
    mut step: impl FnMut(&mut std::task::Context<'_>) -> Result<(), LinkLost>,
) -> LinkLost {
    let lost = async {
        loop {
            let stepped = std::future::poll_fn(|cx| Poll::Ready(step(cx))).await;
            match stepped {
                Ok(()) => tokio::task::yield_now().await,
                Err(lost) => return lost,
            }
        }
    };
    tokio::time::timeout(WATCHDOG, lost).await.expect("the link ends")
}

/// Runs a future in a runtime like the runtime of a lane.
pub(super) fn on_a_lane<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// Counts this process's open files and its mappings of shared memory.
pub(super) fn held_by_this_process() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let opened = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (opened, maps.matches("memfd:").count())
}
