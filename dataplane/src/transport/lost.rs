//! Why links end, by who is to blame. What a transport finds wrong becomes one of these, and the peer hears
//! of it.

use thiserror::Error;

use crate::proto::message::MessageError;
use crate::proto::receive::ReceiveError;

/// Why a link is no more.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum LinkLost {
    /// The peer closed it on purpose.
    #[error("the peer closed the link: {0}")]
    Closed(String),
    /// The peer, or the network to it, is gone.
    #[error("the link broke: {0}")]
    Broken(String),
    /// The peer said what no correct peer says; the link was closed because of it.
    #[error("the peer broke the protocol: {0}")]
    Misbehaved(String),
    /// The peer says that this side said what no correct peer says. Trying again would end the same way.
    #[error("the peer says that this side broke the protocol: {0}")]
    Blamed(String),
    /// The peer has as many links as it takes. There may be room later.
    #[error("the peer takes no further link: {0}")]
    Full(String),
    /// This side ran out of something it needs to go on.
    #[error("this side cannot serve the link: {0}")]
    Resource(String),
}

impl LinkLost {
    /// Returns the reason that the other end hears when this end closes the link (D1.3).
    pub(super) fn as_heard(&self) -> Self {
        match self {
            Self::Misbehaved(reason) => Self::Blamed(reason.clone()),
            Self::Resource(_) => Self::Closed(format!("it says: {self}")),
            Self::Closed(_) | Self::Broken(_) | Self::Full(_) | Self::Blamed(_) => {
                Self::Closed("nothing more is wanted of it".into())
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
