//! The members of etcd, and requests that any of them may answer.
//!
//! A request goes to the member that answered last. If the member does not answer in time, the next member
//! is asked as well. A request may therefore be carried out twice, and the second copy may arrive seconds
//! later. Every caller must allow for that.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, ConnectOptions, Error, Identity, KeyValue, TlsOptions, Txn, TxnOpResponse,
    TxnResponse,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::config::EtcdConfig;
use super::error::EtcdError;

/// The time within which a member must accept a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// The time after which a further member is asked.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// The pause before a member that refused is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The text of etcd about an authentication that is older than the latest change of users or roles.
const OLD_AUTHENTICATION: &str = "revision of auth store is old";

/// The codes of gRPC that matter here.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// A connection to etcd, with a thread of its own. The thread renews leases however busy the dispatcher is.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) config: EtcdConfig,
    runtime: Option<Runtime>,
    /// The clients of the members, in the order of the settings. `None`: not connected.
    clients: Vec<Mutex<Option<Hidden>>>,
    /// The number of the member that is asked first.
    preferred: AtomicUsize,
    tls: Option<TlsOptions>,
    /// The transactions that were sent. Tests send them again, as a member that hung may do.
    #[cfg(test)]
    pub(super) sent: Mutex<Vec<Txn>>,
}

/// A client of one member, which has no useful form for `Debug`.
#[derive(Clone)]
struct Hidden(Client);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The verdict on a failed attempt.
enum Verdict {
    /// Another attempt may succeed.
    Retry(String),
    /// No attempt can succeed.
    GiveUp(EtcdError),
}

impl Members {
    /// Prepares the connection. Connects when the first request is made.
    ///
    /// # Errors
    /// A file for TLS cannot be used, or the system refuses a thread.
    pub(super) fn new(config: EtcdConfig) -> Result<Arc<Members>, EtcdError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()
            .map_err(|error| EtcdError::Other(format!("the system refuses a thread for etcd: {error}")))?;
        let tls = config.is_encrypted.then(|| tls(&config)).transpose()?;
        Ok(Arc::new(Members {
            clients: config.members.iter().map(|_| Mutex::default()).collect(),
            config,
            runtime: Some(runtime),
            preferred: AtomicUsize::new(0),
            tls,
            #[cfg(test)]
            sent: Mutex::default(),
        }))
    }

    /// Waits for a future. Must not be called by a task of a runtime.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("only the drop takes the runtime"),
        }
    }

    /// Starts a task on the connection's own thread.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Runs a future on the connection's own thread, and waits for it from another runtime.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, EtcdError>> + Send + 'static,
    ) -> Result<T, EtcdError> {
        let Some(runtime) = &self.runtime else {
            return Err(EtcdError::Other("the connection to etcd has ended".to_owned()));
        };
        let task = AbortOnDrop(runtime.spawn(future));
        task.wait().await
    }

    /// Asks a member, and a further one whenever no member has answered for `patience`. A member that was
    /// asked may still answer, because a slow disk delays all members alike. A member that refuses is asked
    /// again after a pause.
    ///
    /// # Errors
    /// [`EtcdError::Unreachable`] at the deadline; other errors at once.
    pub(super) async fn ask<T, F>(
        &self,
        (deadline, patience): (Instant, Duration),
        attempt: impl Fn(Client) -> F,
    ) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let count = self.clients.len();
        // Relaxed: any member may be asked first, so the order of stores does not matter.
        let first = self.preferred.load(Ordering::Relaxed);
        let question = |member: usize, delay: Option<Duration>| {
            let attempt = &attempt;
            async move {
                if let Some(delay) = delay {
                    tokio::time::sleep(delay).await;
                }
                (member, self.ask_one(member, deadline, attempt).await)
            }
        };
        let mut asked = FuturesUnordered::new();
        let mut unasked = (first..first + count).map(|next| next % count);
        let mut reason = "no answer in time".to_owned();
        loop {
            if let Some(member) = unasked.next() {
                asked.push(question(member, None));
            }
            let further = async {
                // With all members asked, only their answers and the deadline are left.
                if unasked.len() > 0 {
                    tokio::time::sleep(patience).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                Some((member, answer)) = asked.next() => match answer {
                    Ok(answer) => {
                        self.preferred.store(member, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Err(Verdict::GiveUp(error)) => return Err(error),
                    Err(Verdict::Retry(why)) => {
                        reason = format!("{}: {why}", self.config.members[member]);
                        // Another member that hangs must not keep this one from a second chance.
                        asked.push(question(member, Some(PAUSE)));
                    }
                },
                () = further => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err(EtcdError::Unreachable {
                        members: self.config.names(),
                        tls: self.advice_on_tls(&reason),
                        reason,
                    });
                }
            }
        }
    }

    /// Carries out a transaction. A copy of it may be carried out later.
    ///
    /// # Errors
    /// Like [`ask`](Members::ask).
    pub(super) async fn txn(&self, limits: (Instant, Duration), txn: Txn) -> Result<TxnResponse, EtcdError> {
        #[cfg(test)]
        self.sent.lock().push(txn.clone());
        self.ask(limits, |mut client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        })
        .await
    }

    async fn ask_one<T, F>(
        &self,
        member: usize,
        deadline: Instant,
        attempt: impl Fn(Client) -> F,
    ) -> Result<T, Verdict>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let client = self.client(member).await?;
        let answered = tokio::time::timeout_at(deadline, attempt(client)).await;
        let (verdict, keeps_connection) = match answered {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => (self.judge(&error), is_refusal(&error)),
            Err(_) => (Verdict::Retry("no answer in time".to_owned()), false),
        };
        if !keeps_connection {
            // The next request connects again, and authenticates again.
            *self.clients[member].lock() = None;
        }
        Err(verdict)
    }

    async fn client(&self, member: usize) -> Result<Client, Verdict> {
        let known = self.clients[member].lock().clone();
        if let Some(Hidden(client)) = known {
            return Ok(client);
        }
        let scheme = if self.config.is_encrypted { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.config.members[member]);
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_DEADLINE)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(user) = &self.config.user {
            options = options.with_user(&user.name, &user.password);
        }
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls.clone());
        }
        let connecting = Client::connect([url], Some(options));
        let client = tokio::time::timeout(CONNECT_DEADLINE, connecting)
            .await
            .map_err(|_| Verdict::Retry("no connection in time".to_owned()))?
            .map_err(|error| self.judge(&error))?;
        *self.clients[member].lock() = Some(Hidden(client.clone()));
        Ok(client)
    }

    /// Returns the advice for a connection that was opened and then failed. A refused client certificate and
    /// an encrypted port look like that. `reason` is the whole chain of causes.
    fn advice_on_tls(&self, reason: &str) -> &'static str {
        let mut unopened = ["tcp connect error", "dns error", "refused"].iter();
        let is_open = !unopened.any(|text| reason.contains(text));
        let (has_failed, config) = (is_open && reason.contains("transport error"), &self.config);
        match (has_failed, config.is_encrypted, &config.identity) {
            (false, ..) => "",
            (true, false, _) => ". If etcd is encrypted, write etcds://",
            (true, true, None) => {
                ". If etcd asks for certificates of its clients, give --store-cert FILE and --store-key FILE"
            }
            (true, true, Some(_)) => {
                ". Check that --store-ca names the certificates that sign those of etcd, and that --store-cert and --store-key fit"
            }
        }
    }

    /// Decides whether another attempt may succeed.
    fn judge(&self, error: &Error) -> Verdict {
        let members = || self.config.names();
        if matches!(error, Error::InvalidArgs(_) | Error::InvalidUri(_)) {
            return Verdict::GiveUp(EtcdError::Other(format!("etcd at {}: {error}", members())));
        }
        let Error::GRpcStatus(status) = error else {
            return Verdict::Retry(full_text(error));
        };
        let reason = status.message().to_owned();
        let says = |text: &str| reason.contains(text);
        let denied = |reason| {
            Verdict::GiveUp(EtcdError::Denied {
                prefix: self.config.prefix.clone(),
                members: members(),
                reason,
            })
        };
        match i32::from(status.code()) {
            code::RESOURCE_EXHAUSTED if says("space") => Verdict::GiveUp(EtcdError::Full {
                members: members(),
                reason,
            }),
            code::UNAUTHENTICATED | code::PERMISSION_DENIED => denied(reason),
            code::OUT_OF_RANGE if says("compacted") => {
                Verdict::GiveUp(EtcdError::Compacted { members: members() })
            }
            // An administrator has changed users or roles, so that the next attempt authenticates again.
            code::INVALID_ARGUMENT if says(OLD_AUTHENTICATION) => Verdict::Retry(reason),
            code::INVALID_ARGUMENT | code::FAILED_PRECONDITION
                if says("auth") || says("user name") || says("permission") =>
            {
                denied(reason)
            }
            code::INVALID_ARGUMENT => Verdict::GiveUp(EtcdError::Other(format!(
                "etcd at {} refuses a request: {reason}; start etcd with its default limits --max-txn-ops 128 and \
                 --max-request-bytes 1572864, or larger ones",
                members()
            ))),
            _ => Verdict::Retry(full_text(status)),
        }
    }
}

/// Returns whether a member answered and refused a request, so that its connection serves further requests.
fn is_refusal(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    let says = |text: &str| status.message().contains(text);
    status.message().starts_with("etcdserver: ") && !says(OLD_AUTHENTICATION) && !says("auth token")
}

/// Returns the first pair of each read of a transaction.
pub(super) fn pairs(answer: &TxnResponse) -> impl Iterator<Item = Option<KeyValue>> + use<> {
    answer.op_responses().into_iter().map(|response| match response {
        TxnOpResponse::Get(mut found) => found.take_kvs().pop(),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
    })
}

/// Returns the text of an error with the texts of its causes.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Reads the files for TLS. Checks them here, because a connection with a wrong file would only fail.
fn tls(config: &EtcdConfig) -> Result<TlsOptions, EtcdError> {
    let Some(ca) = &config.ca else {
        return Err(EtcdError::NoCa {
            members: config.names(),
        });
    };
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read_certificates(ca)?));
    if let Some((certificate, key)) = &config.identity {
        let key_bytes = read_file(key)?;
        PrivateKeyDer::from_pem_slice(&key_bytes).map_err(|error| unusable(key, &error))?;
        tls = tls.identity(Identity::from_pem(read_certificates(certificate)?, key_bytes));
    }
    Ok(tls)
}

/// Reads a file with at least one certificate.
fn read_certificates(path: &Path) -> Result<Vec<u8>, EtcdError> {
    let bytes = read_file(path)?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        certificate.map_err(|error| unusable(path, &error))?;
        count += 1;
    }
    if count == 0 {
        return Err(unusable(path, &"it holds no certificate"));
    }
    Ok(bytes)
}

fn read_file(path: &Path) -> Result<Vec<u8>, EtcdError> {
    std::fs::read(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> EtcdError {
    EtcdError::Tls {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

/// A task that ends when its caller no longer waits.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<Result<T, EtcdError>> {
    async fn wait(mut self) -> Result<T, EtcdError> {
        (&mut self.0)
            .await
            .unwrap_or_else(|error| Err(EtcdError::Other(format!("a request to etcd panicked: {error}"))))
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends the thread without waiting for it, because the last owner may be a task of a runtime.
impl Drop for Members {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusing_members_are_asked_again() {
        let config = "etcd://127.0.0.1:1,127.0.0.1:2/test".parse().expect("an address");
        let members = Members::new(config).expect("a thread");
        let calls = AtomicUsize::new(0);
        let answer = members.block_on(async {
            let limits = (Instant::now() + Duration::from_secs(10), PATIENCE);
            let attempt = |_: Client| {
                let call = calls.fetch_add(1, Ordering::Relaxed);
                async move {
                    match call {
                        0 => Err(Error::LeaseKeepAliveError("an election".to_owned())),
                        1 => std::future::pending().await,
                        _ => Ok(call),
                    }
                }
            };
            members.ask(limits, attempt).await
        });
        // The second member hangs until the deadline.
        assert_eq!(answer, Ok(2));
    }
}
