//! `millstream dispatcher`: runs a dispatcher until a signal or a shutdown ends it.

use std::sync::Arc;
use std::time::Duration;

use millstream::control::{DispatcherConfig, WorkerAddresses};
use millstream::{Dispatcher, functions};

use crate::args::DispatcherArgs;
use crate::console::say;
use crate::ending::Ending;
use crate::key;
use crate::worker::seconds;

/// The minimum number of heartbeat intervals within the liveness timeout.
const HEARTBEATS: u32 = 5;

/// Runs the command.
pub(crate) fn run(args: &DispatcherArgs) -> Result<(), String> {
    let config = config(args)?;
    let key = key::load(&args.identity)?;
    let ending = Ending::watch(args.until_stdin_closes)?;
    let dispatcher = Dispatcher::start(
        &key,
        Some(args.bind),
        config,
        Arc::new(functions::builtin(Some(&key))),
    )
    .map_err(|error| error.to_string())?;
    say(&format!("dispatcher listening on {}", dispatcher.local_addr()));
    ending.wait(|| dispatcher.has_ended());
    dispatcher.stop().map_err(|error| error.to_string())
}

fn config(args: &DispatcherArgs) -> Result<DispatcherConfig, String> {
    let liveness = Duration::try_from_secs_f64(args.liveness_s)
        .ok()
        .filter(|liveness| *liveness >= Duration::from_millis(100))
        .ok_or_else(|| format!("--liveness-s {}: must be 0.1 or more seconds", args.liveness_s))?;
    let worker_addresses = WorkerAddresses::new(args.worker_addresses.iter().cloned())
        .map_err(|error| format!("--worker-addresses: {error}"))?;
    let lifetimes = &args.lifetimes;
    let shutdown_quiet_period = seconds("--shutdown-quiet-period-s", args.shutdown_quiet_period_s)?;
    let defaults = DispatcherConfig::default();
    let heartbeat_interval = defaults.heartbeat_interval.min(liveness / HEARTBEATS);
    Ok(DispatcherConfig {
        worker_addresses,
        deployment_mode: args.deployment_mode,
        liveness,
        shutdown_quiet_period,
        heartbeat_interval,
        job_gc_check_interval: lifetimes.job_gc_check_interval_s,
        job_gc_timeout: lifetimes.job_gc_timeout_s.0,
        gc_dynamic_sharding_jobs: lifetimes.gc_dynamic_sharding_jobs,
        dataset_gc_timeout: lifetimes.dataset_gc_timeout_s.0,
        client_timeout: lifetimes.client_timeout_s,
        consumer_timeout: lifetimes.consumer_timeout_s,
        worker_timeout: lifetimes.worker_timeout_s,
        work_dir: args.work_dir.clone(),
        allowed_paths: args.access.allow_path.clone(),
        audit_log: args.audit_log.clone(),
        ..defaults
    })
}
