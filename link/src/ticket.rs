//! Tickets: permissions that are authenticated by the key of the process that issued them.
//!
//! A worker makes a [`TicketKey`] when it starts, and sends the key to the dispatcher when it registers. The
//! dispatcher mints tickets for readers, and the worker verifies them. A ticket becomes invalid when its
//! worker restarts. The meaning of a task is unknown to this module.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};

const VERSION: u8 = 1;
const NO_CONSUMER: u8 = 0;
const WITH_CONSUMER: u8 = 1;
/// The size of the encoded claims: version, consumer flag, client, task and consumer.
const CLAIMS_BYTES: usize = 1 + 1 + 8 + 8 + 4;
const MAC_BYTES: usize = 32;
const TICKET_BYTES: usize = CLAIMS_BYTES + MAC_BYTES;
/// The prefix of the authenticated bytes, which separates tickets from other uses of the same key.
const CONTEXT: &[u8] = b"millstream ticket 1";

/// The permission of a ticket: the client may read the task, in coordinated reads as the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claims {
    /// The number of the client.
    pub client: u64,
    /// The number of the worker's task.
    pub task: u64,
    /// The number of the consumer, in coordinated reads.
    pub consumer: Option<u32>,
}

/// The secret that mints and verifies tickets: 32 random bytes. `Debug` hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    secret: [u8; 32],
}

impl TicketKey {
    /// Generates a new key from the operating system's random source.
    ///
    /// # Errors
    /// Returns an error if the system's random source fails, which does not happen on a working machine.
    pub fn generate() -> Result<TicketKey, TicketError> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| TicketError::NoRandomness)?;
        Ok(TicketKey { secret })
    }

    /// Makes the key from bytes that another process sent.
    pub fn from_bytes(secret: [u8; 32]) -> TicketKey {
        TicketKey { secret }
    }

    /// Returns the secret bytes of the key. The bytes must be sent over an authenticated link only.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.secret
    }

    /// Mints a ticket that permits `claims`. Equal claims always result in the same ticket.
    pub fn mint(&self, claims: &Claims) -> Ticket {
        let mut bytes = [0; TICKET_BYTES];
        let (head, mac) = bytes.split_at_mut(CLAIMS_BYTES);
        head.copy_from_slice(&encode(claims));
        mac.copy_from_slice(self.seal(head).as_ref());
        Ticket { bytes }
    }

    /// Returns the permission of `ticket` if this key minted it. The authentication codes are compared in
    /// constant time.
    ///
    /// # Errors
    /// Returns an error if another key minted the ticket, if the ticket was altered, or if its version is
    /// unknown.
    pub fn verify(&self, ticket: &Ticket) -> Result<Claims, TicketError> {
        let (head, mac) = ticket.bytes.split_at(CLAIMS_BYTES);
        let message = [CONTEXT, head].concat();
        hmac::verify(&self.hmac(), &message, mac).map_err(|_| TicketError::Forged)?;
        decode(head)
    }

    fn seal(&self, head: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.hmac());
        context.update(CONTEXT);
        context.update(head);
        context.sign()
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.secret)
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(hidden)")
    }
}

/// A permission with an authentication code, opaque to the process that carries it: 54 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    bytes: [u8; TICKET_BYTES],
}

impl Ticket {
    /// The size of every ticket on the wire, in bytes.
    pub const SIZE_BYTES: usize = TICKET_BYTES;

    /// Makes a ticket from received bytes. Only the size is checked before [`TicketKey::verify`].
    ///
    /// # Errors
    /// Returns an error if the size is not [`Ticket::SIZE_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Ticket, TicketError> {
        let bytes = bytes.try_into().map_err(|_| TicketError::WrongSize {
            found_bytes: bytes.len(),
        })?;
        Ok(Ticket { bytes })
    }

    /// Returns the bytes of the ticket, as sent on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(opaque)")
    }
}

/// The reason for which a ticket is invalid. The client is at fault, except for `NoRandomness`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The ticket has the wrong size.
    #[error("expected a ticket of {TICKET_BYTES} bytes, found {found_bytes} bytes")]
    WrongSize {
        /// The number of bytes received.
        found_bytes: usize,
    },
    /// The authentication code is not from this key. The ticket was altered or invented, or its worker has
    /// restarted.
    #[error(
        "the ticket was not issued for this worker, or the worker has restarted since: ask the dispatcher again"
    )]
    Forged,
    /// This key minted the ticket, but in a format that this program does not know.
    #[error("the format of the ticket is unknown: run the same version of the dispatcher and the worker")]
    UnknownFormat,
    /// The operating system provided no random bytes.
    #[error("the operating system provided no random bytes for a ticket key")]
    NoRandomness,
}

fn encode(claims: &Claims) -> [u8; CLAIMS_BYTES] {
    let mut head = [0; CLAIMS_BYTES];
    head[0] = VERSION;
    head[1] = if claims.consumer.is_some() {
        WITH_CONSUMER
    } else {
        NO_CONSUMER
    };
    head[2..10].copy_from_slice(&claims.client.to_le_bytes());
    head[10..18].copy_from_slice(&claims.task.to_le_bytes());
    head[18..22].copy_from_slice(&claims.consumer.unwrap_or(0).to_le_bytes());
    head
}

fn decode(head: &[u8]) -> Result<Claims, TicketError> {
    let unknown = TicketError::UnknownFormat;
    let [version, flag, rest @ ..] = head else {
        return Err(unknown);
    };
    if *version != VERSION {
        return Err(unknown);
    }
    let (client, rest) = rest.split_first_chunk().ok_or(unknown)?;
    let (task, rest) = rest.split_first_chunk().ok_or(unknown)?;
    let (consumer, _) = rest.split_first_chunk().ok_or(unknown)?;
    let consumer = match *flag {
        NO_CONSUMER => None,
        WITH_CONSUMER => Some(u32::from_le_bytes(*consumer)),
        _ => return Err(unknown),
    };
    Ok(Claims {
        client: u64::from_le_bytes(*client),
        task: u64::from_le_bytes(*task),
        consumer,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Claims> {
        (any::<u64>(), any::<u64>(), any::<Option<u32>>()).prop_map(|(client, task, consumer)| Claims {
            client,
            task,
            consumer,
        })
    }

    proptest! {
        #[test]
        fn what_a_key_mints_it_verifies(secret: [u8; 32], claims in claims()) {
            let key = TicketKey::from_bytes(secret);
            let carried = Ticket::from_bytes(key.mint(&claims).as_bytes()).unwrap();
            prop_assert_eq!(TicketKey::from_bytes(key.to_bytes()).verify(&carried), Ok(claims));
        }

        #[test]
        fn any_altered_bit_is_noticed(secret: [u8; 32], claims in claims(), bit in 0..Ticket::SIZE_BYTES * 8) {
            let key = TicketKey::from_bytes(secret);
            let mut ticket = key.mint(&claims);
            ticket.bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(key.verify(&ticket), Err(TicketError::Forged));
        }

        #[test]
        fn another_key_verifies_nothing(secret: [u8; 32], other: [u8; 32], claims in claims()) {
            prop_assume!(secret != other);
            let ticket = TicketKey::from_bytes(secret).mint(&claims);
            prop_assert_eq!(TicketKey::from_bytes(other).verify(&ticket), Err(TicketError::Forged));
        }

        #[test]
        fn arbitrary_bytes_never_pass(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let key = TicketKey::from_bytes([9; 32]);
            prop_assert!(Ticket::from_bytes(&bytes).and_then(|ticket| key.verify(&ticket)).is_err());
        }
    }

    #[test]
    fn claims_differ_with_and_without_consumer_zero() {
        let key = TicketKey::generate().unwrap();
        let alone = Claims {
            client: 1,
            task: 2,
            consumer: None,
        };
        let zero = Claims {
            consumer: Some(0),
            ..alone
        };
        assert_ne!(key.mint(&alone), key.mint(&zero));
        assert!(!format!("{key:?}").contains('['));
    }
}
