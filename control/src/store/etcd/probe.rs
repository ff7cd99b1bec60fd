//! Views and changes of a prefix from outside, for tests.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::time::Duration;

use etcd_client::{Client, Error};
use tokio::time::Instant;

use super::candidate::EtcdCandidate;
use super::config::EtcdConfig;
use super::error::EtcdError;
use super::keys::Keys;
use super::lease;
use super::members::Members;
use super::reading;
use crate::dispatcher::Record;

const SECOND: Duration = Duration::from_secs(1);

impl EtcdCandidate {
    /// Reads all records below a prefix, without leading.
    pub(in crate::store) fn read_all(config: &EtcdConfig) -> Result<Vec<Record>, EtcdError> {
        let members = Members::new(config.clone())?;
        let contents = members.block_on(reading::read(&members, &Keys::new(&config.prefix)))?;
        Ok(contents.records)
    }

    /// Sends all earlier transactions of this candidate and its store again, as a member does that hung.
    /// Returns their number.
    pub(in crate::store) fn repeat_transactions(&self) -> usize {
        let sent = self.members.sent.lock().clone();
        self.members.block_on(async {
            for txn in &sent {
                let limits = (Instant::now() + 5 * SECOND, SECOND);
                let attempt = |mut client: Client| {
                    let txn = txn.clone();
                    async move { client.txn(txn).await }
                };
                self.members.ask(limits, attempt).await.unwrap();
            }
        });
        sent.len()
    }

    /// Ends the leader's lease, as etcd does with the lease of a paused leader.
    pub(in crate::store) fn end_leadership(config: &EtcdConfig) {
        let key = Keys::new(&config.prefix).leader();
        ask(config, |mut client| {
            let key = key.clone();
            async move {
                let lease = client.get(key, None).await?.kvs()[0].lease();
                client.lease_revoke(lease).await.map(|_| ())
            }
        });
    }

    /// Returns whether the leader's key exists.
    pub(in crate::store) fn has_leader(config: &EtcdConfig) -> bool {
        let key = Keys::new(&config.prefix).leader();
        let found = std::sync::atomic::AtomicBool::new(false);
        ask(config, |mut client| {
            let (key, found) = (key.clone(), &found);
            async move {
                let count = client.get(key, None).await?.count();
                // Relaxed: the same thread reads the value.
                found.store(count > 0, std::sync::atomic::Ordering::Relaxed);
                Ok(())
            }
        });
        found.into_inner()
    }

    /// Ends a lease that does not exist.
    pub(in crate::store) fn end_absent_lease(config: &EtcdConfig) -> Result<(), EtcdError> {
        let members = Members::new(config.clone())?;
        members.block_on(lease::end(&members, 0x7777))
    }

    /// Writes a key below the prefix.
    pub(in crate::store) fn overwrite(config: &EtcdConfig, name: &str, value: &str) {
        let key = format!("{}/{name}", config.prefix);
        ask(config, |mut client| {
            let (key, value) = (key.clone(), value.to_owned());
            async move { client.put(key, value, None).await.map(|_| ()) }
        });
    }

    /// Removes a key below the prefix.
    pub(in crate::store) fn remove(config: &EtcdConfig, name: &str) {
        let key = format!("{}/{name}", config.prefix);
        ask(config, |mut client| {
            let key = key.clone();
            async move { client.delete(key, None).await.map(|_| ()) }
        });
    }
}

fn ask<F>(config: &EtcdConfig, attempt: impl Fn(Client) -> F)
where
    F: Future<Output = Result<(), Error>>,
{
    let members = Members::new(config.clone()).unwrap();
    members.block_on(async {
        let limits = (Instant::now() + 5 * SECOND, SECOND);
        members.ask(limits, attempt).await.unwrap();
    });
}
