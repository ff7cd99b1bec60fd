//! Closes accepted connections whose peers are revoked later.

use std::sync::Arc;

use quinn::{Connection, VarInt};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::identity::{LOOK_EVERY, Revocations};
use crate::tls::peer_certificate;

/// The application close code of a connection whose peer was revoked after it connected. The protocols above
/// do not use this number.
const CLOSE_REVOKED: VarInt = VarInt::from_u32(7);

/// Watches for a revocation of the connection's peer, and closes the connection in that case. The watch ends
/// when the returned sender is dropped.
pub(super) fn watch(connection: Connection, revocations: Arc<Revocations>) -> oneshot::Sender<()> {
    let (ending, mut ended) = oneshot::channel();
    tokio::spawn(async move {
        let Some(certificate) = peer_certificate(&connection) else {
            return;
        };
        let mut list = revocations.current();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut ended => return,
                _ = connection.closed() => return,
                _ = looks.tick() => {}
            }
            let current = revocations.current();
            if !Arc::ptr_eq(&current, &list) && current.names(&certificate) {
                tracing::warn!(peer = %connection.remote_address(), "closed the connection of a revoked peer");
                connection.close(
                    CLOSE_REVOKED,
                    b"the operator has revoked your key or certificate: ask for a new key",
                );
                return;
            }
            list = current;
        }
    });
    ending
}
