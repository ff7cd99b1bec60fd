//! The wire types of messages: CBOR with numbered fields that never change their meaning (C1.1).
//!
//! Wire types are not checked yet. Conversions to the domain's types check every field once, and the rest
//! of the crate trusts the result.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod hello;
mod push;
mod reply;
mod request;

pub use hello::ALPN;
pub(crate) use hello::{
    Beat, CLOSE_GOODBYE, CLOSE_NOT_LEADER, CLOSE_SHUT_DOWN, Hello, PROTOCOL_VERSION, Welcome,
};
pub(crate) use push::WirePush;
pub(crate) use reply::{LeasedRun, WireReply, WireResponse, unexpected};
pub(crate) use request::{Envelope, WireRegistration, WireRequest};
