//! The command: plans the processes, supervises them until a signal, and ends them in order.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use millstream::Service;
use millstream::link::{KeyMaterial, LoadedKey};

use crate::args::Cli;
use crate::asking;
use crate::child::ChildServer;
use crate::console::{LogFormat, note};
use crate::ending::{Brake, Ending, NotDone};
use crate::key;
use crate::worker::seconds;

use super::args::UpArgs;
use super::supervisor::{Plan, Supervisor};

/// The time that a drained worker has to end after its drain deadline.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// The time that a dispatcher has to end.
const DISPATCHER_GRACE: Duration = Duration::from_secs(10);

/// The time within which a process must serve after its start. A worker waits for its dispatcher for 60 s by
/// default.
const SERVE_DEADLINE: Duration = Duration::from_secs(90);

/// Runs the command.
pub(crate) fn run(args: &UpArgs, cli: &Cli) -> Result<(), String> {
    if args.bind.ip().is_unspecified() {
        return Err(format!(
            "--bind {}: the workers connect to this address, so it must be an address of this machine, such as 127.0.0.1:5050",
            args.bind
        ));
    }
    let drain_deadline = seconds("--drain-deadline-s", args.drain_deadline_s)?;
    // The key is loaded, and created if necessary, before the children look for the key.
    let key = key::load(&args.identity)?;
    refuse_role_key(args, &key)?;
    let ending = Ending::watch(false)?;
    let temporary = args.work_dir.is_none().then(temporary_work_dir).transpose()?;
    let work_dir = match (&args.work_dir, &temporary) {
        (Some(given), _) => given.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => return Err("no work directory: this is a defect of the command".to_owned()),
    };
    let mut supervisor = Supervisor::new(plan(args, cli, work_dir)?);
    let mut outcome = Ok(());
    let signalled = ending.wait(|| match supervisor.step() {
        None => false,
        Some(ended) => {
            outcome = ended;
            true
        }
    });
    // The reason comes before the messages of the workers, and is repeated as the last line.
    if let Err(error) = &outcome {
        note(&format!("ending all processes: {error}"));
    }
    if signalled.is_some() {
        note(
            "draining: workers deliver the elements that they have begun; a second signal ends all processes at once",
        );
    }
    supervisor.terminate_workers();
    if supervisor.await_end(&ending, drain_deadline + DRAIN_GRACE) {
        end_dispatcher(args, key, &ending, &mut supervisor);
    }
    // Dropping the supervisor ends the processes that still run.
    drop(supervisor);
    note("all processes have ended");
    outcome
}

/// Refuses the key of a single role, with which either the dispatcher or the workers would fail.
fn refuse_role_key(args: &UpArgs, key: &LoadedKey) -> Result<(), String> {
    let KeyMaterial::Role(role_key) = &key.keys.own else {
        return Ok(());
    };
    let source = match &args.identity.key.key {
        Some(path) => format!("--key {path}"),
        None => "the key of MILLSTREAM_KEY or of this user".to_owned(),
    };
    Err(format!(
        "{source}: this key is only for the role `{}`, but `millstream up` runs a dispatcher and workers; name the \
         cluster key with --key or MILLSTREAM_KEY",
        role_key.role()
    ))
}

/// Ends the dispatcher after its workers, unless a signal comes first. A dispatcher whose records end with
/// the command shuts the service down, so that readers do not wait for its return.
fn end_dispatcher(args: &UpArgs, key: LoadedKey, ending: &Ending, supervisor: &mut Supervisor) {
    if args.work_dir.is_none()
        && let Some(address) = supervisor.dispatcher_address()
    {
        note("all workers have ended; the dispatcher tells the readers that the service ends");
        let config = asking::config();
        let (brake, give_up) = (Brake::default(), config.give_up.clone());
        brake.hold(move || give_up.give_up());
        let shut_down = move || Service::connect(&key, &address, config)?.shutdown();
        let untold = match ending.unless(&brake, shut_down) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(NotDone::Refused(reason)) => Some(reason),
            Err(NotDone::Interrupted) => return,
        };
        if let Some(reason) = untold {
            note(&format!("readers were not told that the service ends: {reason}"));
        }
    }
    supervisor.terminate_dispatcher();
    supervisor.await_end(ending, DISPATCHER_GRACE);
}

fn temporary_work_dir() -> Result<tempfile::TempDir, String> {
    let created = tempfile::Builder::new().prefix("millstream-up-").tempdir();
    created.map_err(|error| {
        let parent = std::env::temp_dir();
        format!(
            "cannot create the dispatcher's directory below {}: {error}; set TMPDIR, or pass --work-dir",
            parent.display()
        )
    })
}

/// Returns the program and the arguments of all processes.
fn plan(args: &UpArgs, cli: &Cli, work_dir: &Path) -> Result<Plan, String> {
    let mut common: Vec<OsString> = vec!["-v".into(); usize::from(cli.verbose)];
    if cli.log_format == LogFormat::Json {
        common.extend(["--log-format".into(), "json".into()]);
    }
    let mut add = |flag: &str, value: OsString| common.extend([flag.into(), value]);
    if let Some(key) = &args.identity.key.key {
        add("--key", key.into());
    }
    if let Some(path) = &args.identity.revoked {
        add("--revoked", path.into());
    }
    for path in &args.access.allow_path {
        add("--allow-path", path.into());
    }
    common.extend(args.traces.arguments());
    let mut dispatcher: Vec<OsString> = vec!["dispatcher".into(), "--work-dir".into(), work_dir.into()];
    dispatcher.extend_from_slice(&common);
    dispatcher.extend(args.admin.arguments());
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = (processors / args.workers as usize).max(1);
    let threads = args.threads.unwrap_or(share).to_string();
    let bind = SocketAddr::new(args.bind.ip(), 0).to_string();
    let deadline = args.drain_deadline_s.to_string();
    let worker = ["worker", "--bind", &bind, "--threads", &threads];
    let worker = worker.into_iter().chain(["--drain-deadline-s", &deadline]);
    let mut worker: Vec<OsString> = worker.map(OsString::from).collect();
    worker.extend(common);
    worker.extend_from_slice(&args.worker_flags);
    Ok(Plan {
        program: ChildServer::program()?,
        bind: args.bind,
        dispatcher,
        worker,
        workers: args.workers,
        restarts_max: args.restarts_max,
        serve_deadline: SERVE_DEADLINE,
    })
}
