//! The first words on the long-lived stream, and the signs of life that follow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::id::{BootId, ClientId, SessionId};

/// The protocol's name and version in the handshake (C1.1).
pub const ALPN: &str = "millstream-control/1";

/// What both ends must have in common beyond the handshake's protocol name.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Hello {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) session: SessionId,
}

/// The dispatcher's first message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Welcome {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) boot: BootId,
    /// How often the client shall say that it lives.
    #[n(2)]
    pub(crate) heartbeat_ms: u64,
    /// After which silence the other end is gone.
    #[n(3)]
    pub(crate) liveness_ms: u64,
}

/// The client lives, and so do these of its iterations' clients.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Beat {
    #[n(0)]
    pub(crate) sequence: u64,
    #[n(1)]
    pub(crate) clients: Vec<ClientId>,
}
