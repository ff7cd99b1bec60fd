//! The probes of workers' ports: they check whether a process listens there.

use tokio::task::JoinSet;

use crate::id::WorkerId;
use crate::port::is_closed;

/// Maximum number of probes in progress. Further probes are skipped, and requested again with the next
/// sweep.
const PROBES_MAX: usize = 64;
/// The probes in progress.
#[derive(Debug, Default)]
pub(super) struct Probes {
    under_way: JoinSet<Option<(WorkerId, bool)>>,
}

impl Probes {
    /// Begins a probe, unless too many probes are in progress.
    pub(super) fn begin(&mut self, worker: WorkerId, address: String) {
        if self.under_way.len() < PROBES_MAX {
            self.under_way
                .spawn(async move { Some((worker, is_closed(&address).await?)) });
        }
    }

    /// Returns the next finished probe: the worker, and whether its port is closed. Waits for ever if no
    /// probe is in progress. Cancel-safe.
    pub(super) async fn next(&mut self) -> (WorkerId, bool) {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(Some(probed))) => return probed,
                Some(Ok(None)) => {}
                Some(Err(error)) => tracing::error!(%error, "the task of a probe panicked"),
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;

    #[tokio::test]
    async fn probes_name_their_workers_and_have_a_limit() {
        let open = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addresses = [&open, &closed].map(|socket| socket.local_addr().unwrap().to_string());
        drop(closed);
        let mut probes = Probes::default();
        for (worker, address) in (1..).zip(addresses.iter().cycle().take(2 * PROBES_MAX)) {
            probes.begin(WorkerId(worker), address.clone());
        }
        let mut heard = 0;
        while !probes.under_way.is_empty() {
            let (worker, is_closed) = probes.next().await;
            assert_eq!(is_closed, worker.0 % 2 == 0, "{worker}");
            heard += 1;
        }
        assert_eq!(heard, PROBES_MAX);
    }
}
