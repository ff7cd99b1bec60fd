//! An honest process, which is served beside hostile processes.

use std::cell::Cell;
use std::future::Future;

use millstream_control::rpc::{Client, Server};
use millstream_control::{ClientPush, Counts, DatasetId, JobParameters, Policy};
use millstream_link::Role;

use super::{Cluster, Worker, told, within};

/// An honest process and its worker.
pub(crate) struct Honest {
    pub(crate) client: Client,
    _worker: Worker,
}

impl Honest {
    pub(crate) async fn new(cluster: &Cluster, server: &Server) -> Honest {
        let address = server.local_addr();
        let worker = cluster.worker("honest:1", address).await;
        let client = cluster.connect(Role::Submit, address).await.unwrap();
        let honest = Honest {
            client,
            _worker: worker,
        };
        honest.is_served().await;
        honest
    }

    /// Registers a dataset, creates a job, opens an iteration, receives a task, and leaves.
    pub(crate) async fn is_served(&self) {
        let id = DatasetId::new("honest").unwrap();
        let registered = self
            .client
            .register_dataset(Some(id.clone()), b"10".to_vec())
            .await;
        assert_eq!(registered.unwrap(), id);
        let parameters = JobParameters::new(id, Policy::Dynamic);
        let job = self
            .client
            .find_or_create_job(Some("honest".to_owned()), &parameters)
            .await;
        let opened = self.client.open_iteration(job.unwrap(), 0, None).await;
        let mut iteration = opened.unwrap();
        while !matches!(told(&mut iteration).await, ClientPush::TaskAdded(_)) {}
        iteration.release().await.unwrap();
    }

    /// Is served repeatedly while an attack runs, and once more after the attack.
    pub(crate) async fn meanwhile<T>(&self, attack: impl Future<Output = T>) -> T {
        let is_over = Cell::new(false);
        let attack = async {
            let result = attack.await;
            is_over.set(true);
            result
        };
        let served = async {
            while !is_over.get() {
                self.is_served().await;
            }
            self.is_served().await;
        };
        within("the end of an attack", async { tokio::join!(attack, served) })
            .await
            .0
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.client.status().await.unwrap().counts
    }

    /// Returns the task of the honest process's worker.
    pub(crate) async fn task(&self) -> u64 {
        self.client.status().await.unwrap().iterations[0].tasks[0].id.0
    }

    /// Returns the job that the honest process reads.
    pub(crate) async fn job(&self) -> u64 {
        self.client.status().await.unwrap().jobs[0].id.0
    }
}

/// The counts of a dispatcher that has served only the honest process.
pub(crate) const HONEST: Counts = Counts {
    workers: 1,
    datasets: 1,
    jobs: 1,
    iterations: 1,
    clients: 0,
    tasks: 1,
    draining: 0,
};
