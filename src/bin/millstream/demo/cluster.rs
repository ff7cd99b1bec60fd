//! The demo's service: a dispatcher and workers as child processes. All of them end with the demo, even if
//! the demo crashes.

use std::time::Duration;

use millstream::link::ClusterKey;

use crate::child::{ChildServer, served_address};

/// The time within which a process must serve.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// The processes of the service. Dropping the cluster ends and reaps all processes.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The address of the dispatcher.
    pub(super) dispatcher: String,
    /// The process ids of the workers.
    pub(super) worker_pids: Vec<u32>,
    // Processes end in this order. The dispatcher ends last, because workers say goodbye to it.
    processes: Vec<ChildServer>,
}

impl Cluster {
    /// Starts a dispatcher and `workers` workers on free ports of this machine, and waits until all processes
    /// serve.
    pub(super) fn start(workers: u32, key: &ClusterKey) -> Result<Self, String> {
        // An early return drops the cluster, which ends the processes started so far.
        let mut cluster = Self {
            dispatcher: String::new(),
            worker_pids: Vec::new(),
            processes: Vec::new(),
        };
        let dispatcher = start("dispatcher", &["dispatcher", "--bind", "127.0.0.1:0"], key)?;
        let said = dispatcher.await_serving(READY_DEADLINE);
        cluster.processes.push(dispatcher);
        let address = served_address(&said?)?.to_owned();
        for number in 0..workers {
            let name = format!("worker {number}");
            let worker = start(&name, &["worker", "--dispatcher", &address], key)?;
            cluster.worker_pids.push(worker.id());
            cluster.processes.insert(0, worker);
        }
        for worker in cluster.processes.iter().rev().skip(1) {
            worker.await_serving(READY_DEADLINE)?;
        }
        cluster.dispatcher = address;
        Ok(cluster)
    }
}

fn start(name: &str, arguments: &[&str], key: &ClusterKey) -> Result<ChildServer, String> {
    let mut command = ChildServer::command(&ChildServer::program()?, arguments);
    // The key is not an argument, because every user can see the arguments of a process.
    command.env("MILLSTREAM_KEY", key.to_text());
    ChildServer::start(name, command)
}
