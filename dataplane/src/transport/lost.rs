//! The reasons for which links end, classified by the side at fault. A transport converts each error that it
//! finds into a [`LinkLost`], and reports it to the peer.

use thiserror::Error;

use crate::proto::message::MessageError;
use crate::proto::receive::ReceiveError;

/// The reason for which a link has ended.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum LinkLost {
    /// The peer closed the link on purpose.
    #[error("the peer closed the link: {0}")]
    Closed(String),
    /// The peer or the network to the peer failed.
    #[error("the link broke: {0}")]
    Broken(String),
    /// The peer violated the protocol. This side closed the link.
    #[error("the peer broke the protocol: {0}")]
    Misbehaved(String),
    /// The peer reports that this side violated the protocol. A retry would fail in the same way.
    #[error("the peer reports that this side broke the protocol: {0}")]
    Blamed(String),
    /// The peer has the maximum number of links. A later retry may succeed.
    #[error("the peer accepts no further link: {0}")]
    Full(String),
    /// This side lacks a resource that the link needs.
    #[error("this side cannot serve the link: {0}")]
    Resource(String),
}

impl LinkLost {
    /// Returns the reason that the other end receives when this end closes the link (D1.3).
    pub(super) fn as_heard(&self) -> Self {
        match self {
            Self::Misbehaved(reason) => Self::Blamed(reason.clone()),
            Self::Resource(_) => Self::Closed(format!("error of the closing side: {self}")),
            Self::Closed(_) | Self::Broken(_) | Self::Full(_) | Self::Blamed(_) => {
                Self::Closed("the closing side no longer needs the link".into())
            }
        }
    }
}

impl From<MessageError> for LinkLost {
    fn from(error: MessageError) -> Self {
        Self::Misbehaved(error.to_string())
    }
}

impl From<ReceiveError> for LinkLost {
    fn from(error: ReceiveError) -> Self {
        Self::Misbehaved(error.to_string())
    }
}
