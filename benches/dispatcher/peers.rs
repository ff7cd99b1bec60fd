//! Many peers: the cost of workers and readers that only send heartbeats, each on its own connection.

use std::str::FromStr;
use std::time::Duration;

use millstream::control::agent::{Agent, AgentConfig};
use millstream::control::rpc::{Client, IterationHandle, SessionConfig};
use millstream::control::{JobId, JobParameters, Policy};
use millstream::link::{Endpoint, EndpointConfig, HostPort, Role, TicketKey};
use millstream::pipeline::graph::Dataset;
use tokio::task::JoinSet;

use super::Scale;
use super::processes::{Key, Server};
use super::table;

/// The numbers of workers, which are also the numbers of readers.
const PEERS: &[usize] = &[100, 300, 1000];
const PEERS_SMALL: &[usize] = &[2, 4];
/// The time before the measurement, in which the peers connect and join.
pub(crate) const SETTLING: Duration = Duration::from_secs(10);
pub(crate) const SETTLING_SMALL: Duration = Duration::from_millis(10);
/// The measured time. The system counts processor time in steps of 10 ms.
const MEASURED: Duration = Duration::from_secs(30);
const MEASURED_SMALL: Duration = Duration::from_millis(100);
/// The number of connections that share a socket and a certificate. The dispatcher accepts at most 64
/// connections from one peer.
const PER_ENDPOINT: usize = 32;

/// Measures each number of peers with a new dispatcher.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    let seconds = scale.pick(MEASURED, MEASURED_SMALL).as_secs_f64();
    table::say(&format!(
        "peers: workers with a task each and as many readers of one job, heartbeats at the defaults; the dispatcher's \
         processor time over {seconds} s. Growth 1.00 is linear"
    ))?;
    table::header(&[
        "workers",
        "readers",
        "joining s cpu",
        "cores",
        "µs/s each",
        "growth",
    ])?;
    let mut first = None;
    let all = scale.pick(PEERS, PEERS_SMALL).to_vec();
    for peers in scale.peers.map_or(all, |peers| vec![peers]) {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let (joining, cores) = runtime.block_on(measure(peers, scale))?;
        let each = cores / peers as f64;
        let growth = each / *first.get_or_insert(each);
        table::row(&[
            peers.to_string(),
            peers.to_string(),
            format!("{joining:.2}"),
            format!("{cores:.3}"),
            format!("{:.1}", each * 1e6 / 2.0),
            format!("{growth:.2}"),
        ])?;
    }
    Ok(())
}

/// Returns the processor seconds until all peers had joined, and the number of processors used afterwards.
async fn measure(peers: usize, scale: Scale) -> Result<(f64, f64), String> {
    let key = Key::generate()?;
    let dispatcher = Server::dispatcher(&key, &[])?;
    let workers = start_workers(&key, &dispatcher.address, peers).await?;
    let readers = start_readers(&key, &dispatcher.address, peers).await?;
    tokio::time::sleep(scale.pick(SETTLING, SETTLING_SMALL)).await;
    let before = dispatcher.cpu_seconds();
    let began = std::time::Instant::now();
    tokio::time::sleep(scale.pick(MEASURED, MEASURED_SMALL)).await;
    let seconds = began.elapsed().as_secs_f64();
    let cores = (dispatcher.cpu_seconds() - before) / seconds;
    let living = readers.first().ok_or("no readers")?.client.status().await;
    let counts = living.map_err(|error| error.to_string())?.counts;
    if (counts.workers, counts.clients) != (peers as u64, peers as u64) {
        return Err(format!(
            "expected {peers} living workers and readers, found {} workers and {} readers",
            counts.workers, counts.clients
        ));
    }
    drop((workers, readers));
    Ok((before, cores))
}

/// Starts workers that accept their tasks but compute nothing.
pub(crate) async fn start_workers(key: &Key, dispatcher: &str, count: usize) -> Result<Vec<Agent>, String> {
    let address = HostPort::from_str(dispatcher).map_err(|error| error.to_string())?;
    let mut workers = Vec::new();
    while workers.len() < count {
        let endpoint = endpoint(key, Role::Worker)?;
        let mut starting = JoinSet::new();
        for number in workers.len()..count.min(workers.len() + PER_ENDPOINT) {
            let (endpoint, address) = (endpoint.clone(), address.clone());
            let ticket_key = TicketKey::generate().map_err(|error| error.to_string())?;
            let config = AgentConfig::new(format!("worker-{number}:1"), ticket_key);
            starting.spawn(async move {
                let (agent, mut events) = Agent::start(endpoint, address, config).await?;
                // The loop ends with its agent.
                tokio::spawn(async move { while events.next().await.is_some() {} });
                Ok::<_, millstream::control::Error>(agent)
            });
        }
        for started in starting.join_all().await {
            workers.push(started.map_err(|error| error.to_string())?);
        }
    }
    Ok(workers)
}

/// A simulated process that reads.
pub(crate) struct ReadingProcess {
    client: Client,
    _listening: JoinSet<()>,
}

/// Starts readers of one job that only send heartbeats.
pub(crate) async fn start_readers(
    key: &Key,
    dispatcher: &str,
    count: usize,
) -> Result<Vec<ReadingProcess>, String> {
    let address = HostPort::from_str(dispatcher).map_err(|error| error.to_string())?;
    let mut readers = Vec::new();
    let mut job = None;
    while readers.len() < count {
        let endpoint = endpoint(key, Role::Submit)?;
        let mut starting = JoinSet::new();
        for _ in readers.len()..count.min(readers.len() + PER_ENDPOINT) {
            let (endpoint, address) = (endpoint.clone(), address.clone());
            starting.spawn(Client::connect(endpoint, address, SessionConfig::default()));
        }
        for connected in starting.join_all().await {
            let client = connected.map_err(|error| error.to_string())?;
            let job = match job {
                Some(job) => job,
                None => *job.insert(create_job(&client).await?),
            };
            let opened = client.open_iteration(job, 0, None).await;
            let iteration = opened.map_err(|error| error.to_string())?;
            let mut listening = JoinSet::new();
            listening.spawn(listen(iteration));
            readers.push(ReadingProcess {
                client,
                _listening: listening,
            });
        }
    }
    Ok(readers)
}

/// Receives the dispatcher's messages until the iteration is dropped.
async fn listen(mut iteration: IterationHandle) {
    while iteration.next_push().await.is_ok() {}
}

async fn create_job(client: &Client) -> Result<JobId, String> {
    let graph = Dataset::range(0, 1000, 1)
        .graph()
        .map_err(|error| error.to_string())?;
    let definition = graph.to_bytes().map_err(|error| error.to_string())?;
    let dataset = client.register_dataset(None, definition).await;
    let parameters = JobParameters::new(dataset.map_err(|error| error.to_string())?, Policy::Off);
    let job = client.find_or_create_job(None, &parameters).await;
    job.map_err(|error| error.to_string())
}

fn endpoint(key: &Key, role: Role) -> Result<Endpoint, String> {
    let credentials = key.loaded.credentials(role).map_err(|error| error.to_string())?;
    Endpoint::client(credentials, EndpointConfig::default()).map_err(|error| error.to_string())
}
