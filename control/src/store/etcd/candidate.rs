//! The election of the leader among the dispatchers of a service.
//!
//! A candidate writes its address under the leader's key, with a lease, if the key does not exist. Candidates
//! look for the key a few times in a second. A watch would save few requests, and would have to be
//! renewed whenever its member of etcd hangs.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::EtcdConfig;
use super::error::EtcdError;
use super::keys::Keys;
use super::lease::{self, LEASE, LEASE_SECONDS, Leadership};
use super::members::{Members, PATIENCE, pairs};
use super::store::EtcdStore;
use crate::port::is_closed;
use crate::store::{Campaign, Candidate, Store};

/// The version of the keys and values below a prefix.
const FORMAT: u64 = 1;
/// The time for which a starting dispatcher waits for etcd.
const START_DEADLINE: Duration = Duration::from_secs(5);
/// The interval at which a candidate looks for the leader's key.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The number of checks in succession that must find the leader's port closed.
const CLOSED_MIN: u32 = 2;
/// The interval of warnings while etcd does not answer.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of remembered fingerprints of a service's keys.
const FINGERPRINTS_MAX: usize = 16;

/// A dispatcher that may lead, with its connection to etcd.
#[derive(Clone, Debug)]
pub struct EtcdCandidate {
    pub(super) members: Arc<Members>,
    keys: Keys,
    /// The fingerprints of the keys that this dispatcher accepts. One of them must be known to the service.
    fingerprints: Vec<String>,
    leader: watch::Sender<Option<String>>,
    /// The revision of the last shutdown before this dispatcher started; 0 without one.
    shutdown_before: i64,
}

/// The state of the election at one moment.
struct Election {
    /// The leader, if there is one.
    leader: Option<Leader>,
    /// True if the service does not know all keys of this dispatcher.
    has_new_keys: bool,
    /// The revision of the last shutdown of the service; 0 without one.
    shutdown: i64,
}

/// The leader's key.
struct Leader {
    address: String,
    lease: i64,
    /// The create revision of the key, which no other leadership has.
    revision: i64,
}

/// The outcome of an attempt to lead.
enum Attempt {
    Won(Leadership),
    /// Another dispatcher leads, or is about to.
    Waits(Option<Leader>),
    /// The service was shut down.
    Ended,
}

impl EtcdCandidate {
    /// Connects to etcd, and checks that the prefix belongs to the service with these keys. Blocks for
    /// seconds at most. Must not be called by a task of a runtime.
    ///
    /// # Errors
    /// [`EtcdError`]: etcd does not answer or refuses the user, or the prefix belongs to another service.
    pub fn connect(config: EtcdConfig, fingerprints: Vec<String>) -> Result<EtcdCandidate, EtcdError> {
        let keys = Keys::new(&config.prefix);
        let mut candidate = EtcdCandidate {
            members: Members::new(config)?,
            keys,
            fingerprints,
            leader: watch::Sender::new(None),
            shutdown_before: 0,
        };
        let start = Instant::now() + START_DEADLINE;
        let election = candidate.members.block_on(candidate.look(start))?;
        candidate.shutdown_before = election.shutdown;
        Ok(candidate)
    }

    /// Reads the state of the election.
    async fn look(&self, deadline: Instant) -> Result<Election, EtcdError> {
        let txn = Txn::new().and_then([
            TxnOp::get(self.keys.leader(), None),
            TxnOp::get(self.keys.cluster(), None),
            TxnOp::get(self.keys.shutdown(), None),
        ]);
        let answer = self.members.txn((deadline, PATIENCE), txn).await?;
        let mut pairs = pairs(&answer);
        let mut next = || pairs.next().flatten();
        let (leader, cluster, shutdown) = (next(), next(), next());
        Ok(Election {
            leader: leader.map(|pair| self.leader_in(&pair)).transpose()?,
            has_new_keys: self.check_cluster(cluster.as_ref())?,
            shutdown: shutdown.map_or(0, |pair| pair.mod_revision()),
        })
    }

    fn leader_in(&self, pair: &KeyValue) -> Result<Leader, EtcdError> {
        let value: Option<Value> = serde_json::from_slice(pair.value()).ok();
        let address = value.as_ref().and_then(|value| value["address"].as_str());
        let damaged = || EtcdError::damaged(&self.members.config, "the leader's key holds no address");
        Ok(Leader {
            address: address.map(str::to_owned).ok_or_else(damaged)?,
            lease: pair.lease(),
            revision: pair.create_revision(),
        })
    }

    /// Checks that the records belong to a service with the keys of this dispatcher. Returns whether some of
    /// the keys are new to the service, as during the rotation of a key.
    fn check_cluster(&self, pair: Option<&KeyValue>) -> Result<bool, EtcdError> {
        let config = &self.members.config;
        let Some(pair) = pair else {
            return Ok(true);
        };
        let value: Value = serde_json::from_slice(pair.value()).unwrap_or_default();
        match value["format"].as_u64() {
            Some(FORMAT) => {}
            Some(found) if found > FORMAT => {
                return Err(EtcdError::Later {
                    prefix: config.prefix.clone(),
                    found,
                    known: FORMAT,
                });
            }
            Some(_) | None => {
                let reason = "the key `cluster`, which holds the fingerprints of keys, cannot be read";
                return Err(EtcdError::damaged(config, reason));
            }
        }
        let known: Vec<&str> = value["keys"]
            .as_array()
            .map(|keys| keys.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let is_known = |own: &String| known.contains(&own.as_str());
        if !self.fingerprints.iter().any(is_known) {
            return Err(EtcdError::OtherCluster {
                prefix: config.prefix.clone(),
                members: config.names(),
            });
        }
        Ok(!self.fingerprints.iter().all(is_known) || known.len() != self.fingerprints.len())
    }

    /// Waits until this process leads. Returns `None` if the service was shut down.
    async fn win(&self, address: &str) -> Result<Option<Leadership>, EtcdError> {
        let mut warned: Option<Instant> = None;
        let mut pulse = Pulse::default();
        loop {
            match self.try_to_win(address).await {
                Ok(Attempt::Won(leadership)) => {
                    self.leader.send_replace(Some(address.to_owned()));
                    return Ok(Some(leadership));
                }
                Ok(Attempt::Ended) => return Ok(None),
                Ok(Attempt::Waits(None)) => {}
                Ok(Attempt::Waits(Some(leader))) => {
                    if pulse.has_stopped(&leader).await {
                        // The leader's port is closed, so its lease would only delay the election (C17.3).
                        lease::revoke(&self.members, leader.lease).await;
                    }
                }
                Err(
                    error @ (EtcdError::Unreachable { .. } | EtcdError::Full { .. } | EtcdError::Lost(_)),
                ) => {
                    if warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
                        warned = Some(Instant::now());
                        tracing::warn!(%error, "this dispatcher cannot take part in the election of the leader");
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Becomes the leader if no dispatcher leads.
    async fn try_to_win(&self, own_address: &str) -> Result<Attempt, EtcdError> {
        let election = self.look(Instant::now() + LEASE).await?;
        if election.shutdown > self.shutdown_before {
            return Ok(Attempt::Ended);
        }
        let address = election.leader.as_ref().map(|leader| leader.address.clone());
        self.leader.send_if_modified(|known| {
            let is_new = *known != address;
            known.clone_from(&address);
            is_new
        });
        if election.leader.is_some() {
            return Ok(Attempt::Waits(election.leader));
        }
        let granted = Instant::now();
        let limits = (granted + LEASE, PATIENCE);
        let grant = self
            .members
            .ask(limits, |mut client| async move {
                client.lease_grant(LEASE_SECONDS, None).await
            })
            .await?;
        let lease = grant.id();
        let won = self.write_leader(own_address, lease).await;
        let revision = match won {
            Ok(Some(revision)) => revision,
            Ok(None) => {
                lease::revoke(&self.members, lease).await;
                return Ok(Attempt::Waits(None));
            }
            Err(error) => {
                // The key may have been written without an answer. Ending the lease removes it again.
                let members = Arc::clone(&self.members);
                self.members
                    .spawn(async move { lease::revoke(&members, lease).await });
                return Err(error);
            }
        };
        let leadership = Leadership::start(&self.members, &self.keys, (lease, granted), revision);
        if election.has_new_keys {
            let keys = &self.fingerprints[..self.fingerprints.len().min(FINGERPRINTS_MAX)];
            let value = json!({ "format": FORMAT, "keys": keys }).to_string();
            leadership
                .write(vec![TxnOp::put(self.keys.cluster(), value, None)])
                .await?;
        }
        Ok(Attempt::Won(leadership))
    }

    /// Writes the leader's key if it does not exist. Returns its create revision if this process wrote it.
    async fn write_leader(&self, address: &str, lease: i64) -> Result<Option<i64>, EtcdError> {
        let key = self.keys.leader();
        let value = json!({ "address": address }).to_string();
        let put = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), value, Some(put))])
            .or_else([TxnOp::get(key, None)]);
        let limits = (Instant::now() + LEASE, PATIENCE);
        let answer = self.members.txn(limits, txn).await?;
        if answer.succeeded() {
            return Ok(answer.header().map(etcd_client::ResponseHeader::revision));
        }
        // An earlier attempt may have written the key without an answer.
        let found = pairs(&answer).next().flatten();
        let own = found.filter(|pair| pair.lease() == lease);
        Ok(own.map(|pair| pair.create_revision()))
    }
}

/// The observation of a leader's port.
#[derive(Default)]
struct Pulse {
    /// The leadership that is observed.
    revision: i64,
    /// True if the port was open. Behind a firewall that refuses datagrams, a port is never open.
    was_open: bool,
    /// The number of latest checks that found the port closed.
    closed: u32,
}

impl Pulse {
    /// Returns whether the port of the leader was open and is closed now. A leader whose machine is gone, or
    /// that hangs, is not found in this way: its lease ends by itself.
    async fn has_stopped(&mut self, leader: &Leader) -> bool {
        if self.revision != leader.revision {
            *self = Pulse {
                revision: leader.revision,
                ..Pulse::default()
            };
        }
        match is_closed(&leader.address).await {
            Some(false) => (self.was_open, self.closed) = (true, 0),
            Some(true) => self.closed += 1,
            None => {}
        }
        self.was_open && self.closed >= CLOSED_MIN
    }
}

impl Candidate for EtcdCandidate {
    fn campaign<'a>(&'a mut self, address: &'a str) -> Campaign<'a> {
        Box::pin(async move {
            let (members, keys) = (Arc::clone(&self.members), self.keys.clone());
            let own = self.clone();
            // The earlier leader may have been this process, which leads no longer.
            self.leader.send_replace(None);
            let address = address.to_owned();
            let winning = async move { own.win(&address).await };
            let leadership = members.run(winning).await?;
            let store = leadership.map(|leadership| {
                let store: Box<dyn Store> = Box::new(EtcdStore::new(members, keys, leadership));
                store
            });
            Ok(store)
        })
    }

    fn leader(&self) -> watch::Receiver<Option<String>> {
        self.leader.subscribe()
    }
}
