//! Tests of several dispatchers with one store: one leads, the others name it, and a former leader is silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::rpc::{Client, Server};
use millstream_control::{Campaign, Candidate, Change, Code, Policy, Record, Store, StoreError};
use millstream_link::{HostPorts, Role};
use tokio::sync::watch;

use crate::support::{Cluster, SharedStore, open, session, stop, task_added, within};

/// An election without etcd: the first candidate leads until it drops its store or is deposed.
#[derive(Clone)]
struct Election {
    store: SharedStore,
    state: watch::Sender<State>,
    leader: watch::Sender<Option<String>>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// The number of the current leadership, counted from 1.
    term: u64,
    is_led: bool,
    /// True while the leader must not act without a commit.
    is_paused: bool,
    /// True once a leader waits for the end of the pause.
    is_awaited: bool,
    /// True while the records are not read.
    is_unread: bool,
    /// True if the service was shut down.
    is_ended: bool,
}

impl Election {
    fn new() -> Election {
        Election {
            store: SharedStore::new(),
            state: watch::Sender::default(),
            leader: watch::Sender::default(),
        }
    }

    /// Ends the current leadership without telling the leader, as after a pause of the leader's process.
    fn depose(&self) {
        self.state.send_modify(|state| {
            state.term += 1;
            state.is_led = false;
        });
    }

    fn pause(&self, is_paused: bool) {
        self.state.send_modify(|state| state.is_paused = is_paused);
    }
}

impl Candidate for Election {
    fn campaign<'a>(&'a mut self, address: &'a str) -> Campaign<'a> {
        Box::pin(async move {
            let mut states = self.state.subscribe();
            loop {
                let state = *states
                    .wait_for(|state| !state.is_led || state.is_ended)
                    .await
                    .unwrap();
                if state.is_ended {
                    return Ok(None);
                }
                let mut term = None;
                self.state.send_if_modified(|state| {
                    if state.is_led {
                        return false;
                    }
                    state.is_led = true;
                    state.term += 1;
                    term = Some(state.term);
                    true
                });
                if let Some(term) = term {
                    self.leader.send_replace(Some(address.to_owned()));
                    let election = self.clone();
                    return Ok(Some(Box::new(LedStore { election, term }) as Box<dyn Store>));
                }
            }
        })
    }

    fn leader(&self) -> watch::Receiver<Option<String>> {
        self.leader.subscribe()
    }
}

/// The store of one leadership.
struct LedStore {
    election: Election,
    term: u64,
}

impl LedStore {
    fn state(&self) -> State {
        *self.election.state.borrow()
    }
}

impl Store for LedStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        while self.state().is_unread {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.election.store.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        loop {
            let state = self.state();
            if state.term != self.term {
                return Err(StoreError::Lost("another dispatcher leads".to_owned()));
            }
            if !state.is_paused {
                return self.election.store.commit(changes);
            }
            self.election.state.send_if_modified(|state| {
                let is_first = !state.is_awaited;
                state.is_awaited = true;
                is_first
            });
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn is_held(&self) -> bool {
        let state = self.state();
        state.term == self.term && !state.is_paused
    }

    fn end_service(&mut self) {
        self.election.state.send_modify(|state| state.is_ended = true);
    }
}

impl Drop for LedStore {
    fn drop(&mut self) {
        let term = self.term;
        self.election.state.send_if_modified(|state| {
            let is_leader = state.term == term && state.is_led;
            state.is_led &= !is_leader;
            is_leader
        });
    }
}

struct Dispatchers {
    cluster: Cluster,
    election: Election,
    servers: Vec<Server>,
}

impl Dispatchers {
    /// Starts two dispatchers, of which the first leads.
    async fn start() -> Dispatchers {
        let (cluster, election) = (Cluster::new(), Election::new());
        let mut servers = Vec::new();
        for _ in 0..2 {
            servers.push(cluster.candidate(Box::new(election.clone())));
            let mut leader = election.leader.subscribe();
            within("a leader", leader.wait_for(Option::is_some))
                .await
                .unwrap();
        }
        Dispatchers {
            cluster,
            election,
            servers,
        }
    }

    fn address(&self, index: usize) -> SocketAddr {
        self.servers[index].local_addr()
    }

    fn addresses(&self) -> HostPorts {
        let text = format!("{},{}", self.address(0), self.address(1));
        text.parse().unwrap()
    }

    async fn client(&self, dispatcher: impl Into<HostPorts>) -> Arc<Client> {
        let endpoint = self.cluster.endpoint(Role::Submit);
        let connecting = Client::connect(endpoint, dispatcher, session());
        Arc::new(within("connecting", connecting).await.unwrap())
    }

    /// Waits until the leader is the dispatcher with this number.
    async fn led_by(&self, index: usize) {
        let address = self.address(index).to_string();
        let mut leader = self.election.leader.subscribe();
        let is_it = |leader: &Option<String>| leader.as_deref() == Some(address.as_str());
        within("another leader", leader.wait_for(is_it)).await.unwrap();
    }
}

/// C17.1, C17.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_workers_follow_a_new_leader() {
    let mut dispatchers = Dispatchers::start().await;
    let mut worker = dispatchers
        .cluster
        .worker_of("worker:1", dispatchers.addresses())
        .await;
    let client = dispatchers.client(dispatchers.addresses()).await;
    let mut iteration = open(&client, "10", Policy::Dynamic).await;
    let task = worker.started().await.task;
    task_added(&mut iteration).await;
    let begun = worker.read_some(task, 4).await;
    stop(dispatchers.servers.remove(0)).await;
    worker.read_to_the_end(&mut iteration, task, begun, 10).await;
}

/// C17.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_names_the_leader() {
    let dispatchers = Dispatchers::start().await;
    // The list names the standby, and an address at which nobody listens.
    let text = format!("{},127.0.0.1:9", dispatchers.address(1));
    let client = dispatchers.client(text.parse::<HostPorts>().unwrap()).await;
    within("the status", client.status()).await.unwrap();
}

/// C17.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standbys_repeat_the_address_of_the_leader() {
    let dispatchers = Dispatchers::start().await;
    // The leader cannot be reached at the address that it advertises.
    let advertised = "127.0.0.1:9";
    dispatchers
        .election
        .leader
        .send_replace(Some(advertised.to_owned()));
    let mut config = session();
    // The standby waits 5 s for a leader that the client does not know.
    (config.attempt_deadline, config.connect_deadline) = (Duration::from_secs(3), Duration::from_secs(8));
    let endpoint = dispatchers.cluster.endpoint(Role::Read);
    // A list makes the client look for the leader.
    let text = format!("{},127.0.0.1:11", dispatchers.address(1));
    let connecting = Client::connect(endpoint, text.parse::<HostPorts>().unwrap(), config);
    let error = within("an error", connecting).await.unwrap_err().to_string();
    let named = format!("not the leader, which is {advertised}");
    assert!(error.contains(&named), "{error}");
}

/// C17.3, C17.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_sends_its_processes_away() {
    let dispatchers = Dispatchers::start().await;
    let client = dispatchers.client(dispatchers.addresses()).await;
    let mut iteration = open(&client, "10", Policy::Dynamic).await;
    dispatchers.election.depose();
    dispatchers.led_by(1).await;
    let mut worker = dispatchers
        .cluster
        .worker_of("worker:1", dispatchers.addresses())
        .await;
    worker.started().await;
    task_added(&mut iteration).await;
    // The former leader is a standby, and leads again after the other dispatcher's end.
    dispatchers.election.depose();
    dispatchers.led_by(0).await;
    within("the status", client.status()).await.unwrap();
}

/// C17.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_all_dispatchers() {
    let dispatchers = Dispatchers::start().await;
    let client = dispatchers.client(dispatchers.addresses()).await;
    client.shutdown().await.unwrap();
    drop(client);
    for server in dispatchers.servers {
        within("the end of a dispatcher", server.join()).await.unwrap();
    }
}

/// Tests that a process with the address of a standby alone is told what to do (C17.4).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_alone_is_no_service() {
    let dispatchers = Dispatchers::start().await;
    let mut config = session();
    config.connect_deadline = Duration::from_secs(2);
    let endpoint = dispatchers.cluster.endpoint(Role::Read);
    let connecting = Client::connect(endpoint, HostPorts::from(dispatchers.address(1)), config);
    let error = within("an error", connecting).await.unwrap_err().to_string();
    let leader = dispatchers.address(0).to_string();
    assert!(
        error.contains(&leader) && error.contains("addresses of all dispatchers"),
        "{error}"
    );
}

/// Tests that a leader without a valid lease answers nothing, and then continues (C17.3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_lease_is_silent() {
    let dispatchers = Dispatchers::start().await;
    let client = dispatchers.client(dispatchers.addresses()).await;
    dispatchers.election.pause(true);
    let mut asked = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.status().await })
    };
    let answered = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
    assert!(answered.is_err(), "{answered:?}");
    dispatchers.election.pause(false);
    within("an answer", asked).await.unwrap().unwrap();
}

/// Tests that a stop does not wait for a store that answers neither a commit nor the reading of records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_stores_do_not_delay_a_stop() {
    let mut dispatchers = Dispatchers::start().await;
    let client = dispatchers.client(dispatchers.addresses()).await;
    dispatchers.election.pause(true);
    // The leader waits for a commit, because it may not answer without one.
    let asking = tokio::spawn(async move { client.status().await });
    let mut states = dispatchers.election.state.subscribe();
    let waits = states.wait_for(|state| state.is_awaited);
    within("a waiting commit", waits).await.unwrap();
    within("the end of the leader", dispatchers.servers.remove(0).shutdown())
        .await
        .unwrap();
    asking.abort();
    dispatchers
        .election
        .state
        .send_modify(|state| state.is_unread = true);
    dispatchers.election.depose();
    dispatchers.led_by(0).await;
    within("the end of a reader", dispatchers.servers.remove(0).shutdown())
        .await
        .unwrap();
    // The abandoned threads end with the test.
    dispatchers.election.state.send_modify(|state| {
        state.term += 1;
        (state.is_paused, state.is_unread) = (false, false);
    });
}

/// Tests that a dispatcher which refuses a process is named, although another address does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_named_despite_silent_addresses() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let server = other.server();
    // Nothing is read from this socket.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = format!("{},{}", silent.local_addr().unwrap(), server.local_addr());
    let addresses: HostPorts = text.parse().unwrap();
    let connecting = Client::connect(cluster.endpoint(Role::Read), addresses, session());
    let error = within("an error", connecting).await.unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied, "{error}");
    let refusing = server.local_addr().to_string();
    assert!(error.to_string().contains(&refusing), "{error}");
}

/// Tests that the error of an unreachable service has the reason of each address (C17.5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_unreachable_address_is_named() {
    let cluster = Cluster::new();
    let mut config = session();
    config.connect_deadline = Duration::from_secs(2);
    let addresses: HostPorts = "127.0.0.1:9,127.0.0.1:11".parse().unwrap();
    let connecting = Client::connect(cluster.endpoint(Role::Read), addresses, config);
    let error = within("an error", connecting).await.unwrap_err().to_string();
    assert!(
        error.contains("127.0.0.1:9: ") && error.contains("127.0.0.1:11: "),
        "{error}"
    );
}
