//! Tests that unused entries are removed, and created again for clients that come back.

use std::time::Duration;

use millstream_control::rpc::Client;
use millstream_control::{Code, JobParameters, Policy};
use millstream_link::Role;

use crate::support::{Cluster, open_job, within};

/// C3.8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collected_job_returns_to_its_creator_only() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| {
        config.dispatcher.job_gc_check_interval = Duration::ZERO;
        config.dispatcher.job_gc_timeout = Some(Duration::from_millis(500));
    });
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let stranger = cluster.connect(Role::Read, server.local_addr()).await.unwrap();
    let (own, iteration) = open_job(&client, "10", Policy::Off).await;
    let dataset = client.status().await.unwrap().datasets[0].id.clone();
    let parameters = JobParameters::new(dataset, Policy::Off);
    let name = Some("shared".to_owned());
    let shared = client
        .find_or_create_job(name.clone(), &parameters)
        .await
        .unwrap();
    assert_eq!(stranger.find_or_create_job(name, &parameters).await, Ok(shared));
    iteration.release().await.unwrap();
    within("the collection", no_jobs(&client)).await;
    let error = stranger.open_iteration(own, 0, None).await.unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    // Clients that open the job at the same time get the same job, also under its name.
    for (job, others) in [(own, &client), (shared, &stranger)] {
        let opened = within("opening", async {
            tokio::join!(
                client.open_iteration(job, 3, None),
                others.open_iteration(job, 3, None)
            )
        });
        let (one, other) = opened.await;
        let (_one, _other) = (one.unwrap(), other.unwrap());
        let status = client.status().await.unwrap();
        let newest = status.iterations.iter().max_by_key(|row| row.id).unwrap();
        assert_eq!((newest.repetition, newest.clients.len()), (3, 2));
        let job = status.jobs.iter().find(|row| row.id == newest.job).unwrap();
        assert_eq!(job.parameters, parameters);
    }
}

async fn no_jobs(client: &Client) {
    while client.status().await.unwrap().counts.jobs > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
