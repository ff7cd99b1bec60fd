//! `millstream dispatcher`: runs a dispatcher until a signal or a shutdown ends it.

use std::sync::Arc;
use std::time::Duration;

use millstream::admin::DispatcherSubject;
use millstream::control::{DispatcherConfig, EtcdConfig, EtcdUser, WorkerAddresses};
use millstream::{Dispatcher, SharedStore, functions};

use crate::admin;
use crate::args::{DispatcherArgs, Several};
use crate::config::shown_in_force;
use crate::console::say;
use crate::ending::Ending;
use crate::key;
use crate::worker::seconds;

/// The minimum number of heartbeat intervals within the liveness timeout.
const HEARTBEATS: u32 = 5;

/// Runs the command.
pub(crate) fn run(args: &DispatcherArgs) -> Result<(), String> {
    let mut config = config(args)?;
    let key = key::load(&args.identity)?;
    let ending = Ending::watch(args.until_stdin_closes)?;
    let functions = Arc::new(functions::builtin(Some(&key)));
    let admin = args.admin.bind()?;
    let tracer = args.traces.start("dispatcher", &args.bind.to_string())?;
    config.tracer = tracer.clone();
    let dispatcher = match shared_store(&args.several)? {
        Some(shared) => Dispatcher::start_candidate(&key, Some(args.bind), config, functions, shared),
        None => Dispatcher::start(&key, Some(args.bind), config, functions),
    };
    let dispatcher = dispatcher.map_err(|error| error.to_string())?;
    say(&format!("dispatcher listening on {}", dispatcher.local_addr()));
    let subject = || DispatcherSubject::new(dispatcher.observer()).with_settings(shown_in_force());
    let _admin = admin::serve(admin, subject)?;
    ending.wait(|| dispatcher.has_ended());
    let stopped = dispatcher.stop().map_err(|error| error.to_string());
    tracer.end();
    stopped
}

/// Returns the store that several dispatchers share, if the flags name one.
fn shared_store(args: &Several) -> Result<Option<SharedStore>, String> {
    let Some(store) = &args.store else {
        return Ok(None);
    };
    let mut etcd = store
        .parse::<EtcdConfig>()
        .map_err(|error| format!("--store: {error}"))?;
    if let (Some(name), Some(path)) = (&args.store_user, &args.store_password_file) {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "--store-password-file {}: {error}; name a file that this user may read",
                path.display()
            )
        })?;
        let password = text.lines().next().unwrap_or_default().to_owned();
        let name = name.clone();
        etcd.user = Some(EtcdUser { name, password });
    }
    let has_tls_files = args.store_ca.is_some() || args.store_cert.is_some();
    if has_tls_files && !etcd.is_encrypted {
        return Err(format!(
            "--store {etcd}: the files for TLS have no effect with etcd://: write etcds://"
        ));
    }
    etcd.ca.clone_from(&args.store_ca);
    etcd.identity = args.store_cert.clone().zip(args.store_key.clone());
    Ok(Some(SharedStore {
        etcd,
        advertise: args.advertise.clone(),
    }))
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
        scaling: args.scaling.config(),
        work_dir: args.work_dir.clone(),
        allowed_paths: args.access.allow_path.clone(),
        audit_log: args.audit_log.clone(),
        ..defaults
    })
}
