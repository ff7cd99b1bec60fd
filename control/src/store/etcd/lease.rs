//! The leadership of one dispatcher: a key in etcd under a lease, which a task renews.
//!
//! The key's create revision guards every write. Nobody else has led while the key still has this revision.
//! The clock only decides when the leader may act without a write.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, Error, Txn, TxnOp, TxnResponse};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::EtcdError;
use super::keys::Keys;
use super::members::{Members, PATIENCE};

/// The lease of the leader in whole seconds, the unit of etcd. etcd grants no shorter lease with its default
/// election timeout of one second.
pub(super) const LEASE_SECONDS: i64 = 2;
/// The time after which etcd gives up a leader that does not renew its lease.
pub(super) const LEASE: Duration = Duration::from_secs(LEASE_SECONDS.unsigned_abs());
/// The number of renewals within one lease.
const RENEWALS: u32 = 3;
/// The time after the end of the lease for which the leader waits for etcd before it gives up. The limit is
/// longer than an election among etcd's members, so such an election does not depose the dispatcher.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The time after which all members are asked again.
const TRY_DEADLINE: Duration = Duration::from_secs(5);

/// The knowledge of a lease.
#[derive(Clone, Debug)]
enum Hold {
    /// etcd does not end the lease by itself before this time. A standby that found the leader's port closed
    /// may have ended it, which the next renewal reports.
    Until(Instant),
    /// The lease is over, for this reason.
    Lost(String),
}

/// The leadership of this process. Dropping the value gives the leadership up.
#[derive(Debug)]
pub(super) struct Leadership {
    members: Arc<Members>,
    keys: Keys,
    lease: i64,
    /// The create revision of the leader's key.
    revision: i64,
    hold: watch::Receiver<Hold>,
}

impl Leadership {
    /// Starts to renew a lease that was granted at `granted`.
    pub(super) fn start(
        members: &Arc<Members>,
        keys: &Keys,
        (lease, granted): (i64, Instant),
        revision: i64,
    ) -> Leadership {
        let until = granted + LEASE;
        let (sender, hold) = watch::channel(Hold::Until(until));
        members.spawn(renew(Arc::clone(members), lease, sender));
        Leadership {
            members: Arc::clone(members),
            keys: keys.clone(),
            lease,
            revision,
            hold,
        }
    }

    /// Returns whether the lease holds now.
    pub(super) fn is_held(&self) -> bool {
        matches!(&*self.hold.borrow(), Hold::Until(until) if Instant::now() < *until)
    }

    /// Waits until the lease holds again.
    ///
    /// # Errors
    /// The lease is over.
    pub(super) async fn held(&self) -> Result<(), EtcdError> {
        let mut hold = self.hold.clone();
        loop {
            if self.is_held() {
                return Ok(());
            }
            if let Hold::Lost(reason) = &*hold.borrow_and_update() {
                return Err(EtcdError::Lost(reason.clone()));
            }
            if hold.changed().await.is_err() {
                return Err(EtcdError::Lost("the renewal of the lease has ended".to_owned()));
            }
        }
    }

    /// Waits until the lease is over, and returns the error that says so.
    pub(super) async fn lost(&self) -> EtcdError {
        let mut hold = self.hold.clone();
        let lost = hold.wait_for(|hold| matches!(hold, Hold::Lost(_))).await;
        match lost.as_deref() {
            Ok(Hold::Lost(reason)) => EtcdError::Lost(reason.clone()),
            Ok(Hold::Until(_)) | Err(_) => EtcdError::Lost("the renewal of the lease has ended".to_owned()),
        }
    }

    /// Carries out the operations if this process still leads and the conditions hold, and `otherwise` if
    /// not. Asks etcd as long as this process leads.
    ///
    /// # Errors
    /// The lease is over, or etcd refuses the request.
    pub(super) async fn guarded(
        &self,
        conditions: Vec<Compare>,
        operations: Vec<TxnOp>,
        otherwise: Vec<TxnOp>,
    ) -> Result<TxnResponse, EtcdError> {
        let mut compares = conditions;
        compares.push(Compare::create_revision(
            self.keys.leader(),
            CompareOp::Equal,
            self.revision,
        ));
        let txn = Txn::new().when(compares).and_then(operations).or_else(otherwise);
        let asking = async {
            loop {
                let limits = (Instant::now() + TRY_DEADLINE, PATIENCE);
                match self.members.txn(limits, txn.clone()).await {
                    Err(EtcdError::Unreachable { .. }) => {}
                    answer => return answer,
                }
            }
        };
        tokio::select! {
            answer = asking => answer,
            lost = self.lost() => Err(lost),
        }
    }

    /// Carries out operations that may be repeated, if this process still leads.
    ///
    /// # Errors
    /// Another dispatcher leads, or etcd refuses the request.
    pub(super) async fn write(&self, operations: Vec<TxnOp>) -> Result<(), EtcdError> {
        let done = self.guarded(Vec::new(), operations, Vec::new()).await?;
        if done.succeeded() { Ok(()) } else { Err(deposed()) }
    }

    /// Ends the lease, so that another dispatcher can lead at once.
    pub(super) async fn release(&self) {
        revoke(&self.members, self.lease).await;
    }

    /// Returns the create revision of the leader's key.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }
}

/// Returns the error of a leader whose key in etcd is gone.
pub(super) fn deposed() -> EtcdError {
    EtcdError::Lost("its key in etcd is gone, so another dispatcher leads or is about to lead".to_owned())
}

impl Drop for Leadership {
    fn drop(&mut self) {
        let members = Arc::clone(&self.members);
        let lease = self.lease;
        // A lease that cannot be revoked ends by itself.
        self.members.spawn(async move { revoke(&members, lease).await });
    }
}

/// Ends a lease, so that another dispatcher can lead at once.
pub(super) async fn revoke(members: &Members, lease: i64) {
    if let Err(error) = end(members, lease).await {
        tracing::debug!(%error, "a lease was not revoked, and ends by itself");
    }
}

/// Ends a lease. Several dispatchers may end the same lease, so a lease that is over is no error.
///
/// # Errors
/// etcd does not answer, or refuses the request.
pub(super) async fn end(members: &Members, lease: i64) -> Result<(), EtcdError> {
    let limits = (Instant::now() + LEASE, PATIENCE);
    let attempt = |mut client: Client| async move {
        match client.lease_revoke(lease).await {
            Err(error) if !is_over(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    };
    members.ask(limits, attempt).await
}

/// Returns whether etcd answered that it does not have the lease.
fn is_over(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("lease not found"))
}

/// Renews a lease until its leadership is dropped or the lease is over.
async fn renew(members: Arc<Members>, lease: i64, hold: watch::Sender<Hold>) {
    let every = LEASE / RENEWALS;
    let mut until = match &*hold.borrow() {
        Hold::Until(until) => *until,
        Hold::Lost(_) => return,
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = hold.closed() => return,
        }
        let asked = Instant::now();
        // A late answer is useful until the lease is over.
        let limits = (asked + LEASE, every.mul_f64(0.5));
        match members.ask(limits, |client| keep_alive(client, lease)).await {
            Ok(true) => {
                until = asked + LEASE;
                hold.send_replace(Hold::Until(until));
            }
            Ok(false) => {
                hold.send_replace(Hold::Lost("etcd has ended its lease".to_owned()));
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "the leader's lease was not renewed");
                if Instant::now() > until + SILENCE_MAX {
                    hold.send_replace(Hold::Lost(format!("its lease was not renewed: {error}")));
                    return;
                }
            }
        }
    }
}

/// Renews a lease once. Returns whether the lease still exists.
async fn keep_alive(mut client: Client, lease: i64) -> Result<bool, Error> {
    match client.lease_keep_alive(lease).await {
        Ok(_) => Ok(true),
        Err(Error::LeaseKeepAliveError(_)) => Ok(false),
        Err(error) if is_over(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
