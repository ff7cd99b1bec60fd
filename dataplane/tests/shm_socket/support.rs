//! Workers and clients for the tests of the socket: correct ends, and ends that send arbitrary messages.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use millstream_dataplane::transport::shm::{
    Channel, ClientHello, ControlSizes, Datagram, Listener, ListenerConfig, Offer, SHM_VERSION, ShmAddress,
    greet as connect,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};

/// The timeout of all waits, far longer than any step of these tests takes.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// The environment variable that tells a test that it runs alone in its process.
const ALONE: &str = "MILLSTREAM_TEST_IS_ALONE";

pub(crate) const SIZES: ControlSizes = ControlSizes {
    control_bytes: 4096,
    down_words: 64,
    up_words: 32,
    leases: 16,
};

/// Makes a listener with the default settings.
pub(crate) fn listener() -> Listener {
    Listener::bind(&ListenerConfig::default()).unwrap()
}

pub(crate) fn offer() -> Offer {
    Offer {
        sizes: SIZES,
        control: memfd_create("control", MemfdFlags::CLOEXEC).unwrap(),
    }
}

/// Makes a link. Returns the worker's end and the client's end.
pub(crate) async fn link(listener: &mut Listener) -> (Channel, Channel) {
    let address = listener.address().clone();
    let offer = offer();
    let worker = async { listener.accept().await.greet(&offer, WATCHDOG).await.unwrap() };
    let client = async { connect(&address, WATCHDOG).await.unwrap().0 };
    tokio::join!(worker, client)
}

/// A peer that sends exactly the bytes of a test.
pub(crate) struct Raw {
    socket: OwnedFd,
}

impl Raw {
    pub(crate) fn connect(address: &ShmAddress) -> Self {
        let place = match address {
            ShmAddress::Abstract(_) => {
                SocketAddrUnix::new_abstract_name(&address.to_string().as_bytes()[1..]).unwrap()
            }
            ShmAddress::File(path) => SocketAddrUnix::new(path).unwrap(),
        };
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        rustix::net::connect(&socket, &place).unwrap();
        Self { socket }
    }

    /// Connects a client that has exchanged hello messages. Returns the client, and the worker's end of its
    /// link.
    pub(crate) async fn greeted(listener: &mut Listener) -> (Self, Channel) {
        let raw = Self::connect(listener.address());
        raw.hello(SHM_VERSION);
        let channel = listener.accept().await.greet(&offer(), WATCHDOG).await.unwrap();
        raw.hear();
        (raw, channel)
    }

    pub(crate) fn hello(&self, version: u32) {
        let hello = Datagram::ClientHello(ClientHello { version });
        self.say(&hello.to_bytes().unwrap(), &[]);
    }

    pub(crate) fn say(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); 1024];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        sendmsg(
            &self.socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .unwrap();
    }

    /// Receives the bytes of the next datagram, or no bytes at the end. Closes the datagram's descriptors.
    pub(crate) fn hear(&self) -> Vec<u8> {
        let mut bytes = [0; 8192];
        let mut space = [MaybeUninit::uninit(); 1024];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut waited = [PollFd::new(&self.socket, PollFlags::IN)];
        let watchdog = rustix::event::Timespec {
            tv_sec: WATCHDOG.as_secs() as i64,
            tv_nsec: 0,
        };
        assert!(
            poll(&mut waited, Some(&watchdog)).unwrap() > 0,
            "the other end sent nothing in time"
        );
        let flags = RecvFlags::CMSG_CLOEXEC;
        let came = loop {
            match recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                flags,
            ) {
                // The error is reported once if the other end closed without reading; the datagrams follow.
                Err(rustix::io::Errno::CONNRESET) => {}
                came => break came.unwrap().bytes,
            }
        };
        bytes[..came].to_vec()
    }

    /// Returns the reason with which the other end closes the link.
    pub(crate) fn hear_close(&self) -> millstream_dataplane::transport::shm::Close {
        match Datagram::from_bytes(&self.hear(), 0) {
            Ok(Datagram::Close(close)) => close,
            other => panic!("expected a close message, found {other:?}"),
        }
    }
}

impl From<OwnedFd> for Raw {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Runs a test in a process of its own, because the test counts or limits the descriptors of the whole
/// process.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{complained}"
    );
}

/// Runs a future to its end, within the timeout.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(WATCHDOG, future).await })
        .expect("the test did not end within the timeout")
}

/// Returns the number of open descriptors of this process.
pub(crate) fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
