//! Runs all checks at the same time, each with a deadline, and prints their findings.

use std::time::Duration;

use super::args::DoctorArgs;
use super::bounded::Bounded;
use super::facts;
use super::finding::{Finding, Level, summary};
use super::stores::STORES;
use super::verdicts;
use crate::console::say;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The time for a check that asks the system only.
const SYSTEM_MAX: Duration = Duration::from_secs(5);
/// The time for a check that waits for Python or for the service. Their own deadlines end sooner.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The check in progress. The name stands for its findings if it gives no answer.
struct Check {
    name: &'static str,
    call: Bounded<Vec<Finding>>,
}

impl Check {
    fn start(
        name: &'static str,
        limit: Duration,
        call: impl FnOnce() -> Vec<Finding> + Send + 'static,
    ) -> Check {
        let call = Bounded::start(limit, call);
        Check { name, call }
    }

    fn findings(self) -> Vec<Finding> {
        let (name, limit) = (self.name, self.call.limit());
        let found = self.call.wait();
        found.unwrap_or_else(|| vec![Finding::unanswered(name, limit)])
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), String> {
    let findings = findings(args);
    if args.json {
        let list: Vec<_> = findings.iter().map(Finding::to_json).collect();
        say(&serde_json::Value::from(list).to_string());
    } else {
        findings
            .iter()
            .flat_map(Finding::lines)
            .for_each(|line| say(&line));
        say(&summary(&findings));
    }
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem);
    match problems.count() {
        0 => Ok(()),
        1 => Err("one check found a problem".to_owned()),
        count => Err(format!("{count} checks found a problem")),
    }
}

fn findings(args: &DoctorArgs) -> Vec<Finding> {
    let identity = args.identity.clone();
    let key = Bounded::start(SYSTEM_MAX, move || facts::identity::gather(&identity));
    let mut checks = network(args);
    #[cfg(target_os = "linux")]
    checks.extend(host(args));
    checks.extend(STORES.iter().map(|store| {
        Check::start(store.scheme, SYSTEM_MAX, move || {
            let facts = facts::storage::credentials(store, |name| std::env::var_os(name));
            vec![verdicts::storage::credentials(
                store,
                &facts,
                cfg!(feature = "storage"),
            )]
        })
    }));
    let (key, loaded) = match key.wait() {
        Some((facts, loaded)) => (verdicts::identity::key(&facts), loaded),
        None => (Finding::unanswered("key", SYSTEM_MAX), None),
    };
    let dispatcher = args.dispatcher.clone();
    let (same_key, same) = (loaded.clone(), dispatcher.clone());
    checks.push(Check::start("dispatcher", ANSWER_MAX, move || {
        let facts = facts::service::service(loaded.as_ref(), dispatcher.as_deref());
        verdicts::service::service(&facts, VERSION)
    }));
    checks.push(Check::start("members", ANSWER_MAX, move || {
        let facts = facts::members::members(same_key.as_ref(), same.as_deref());
        verdicts::members::members(&facts).into_iter().collect()
    }));
    let others = checks.into_iter().flat_map(Check::findings);
    std::iter::once(key).chain(others).collect()
}

fn network(args: &DoctorArgs) -> Vec<Check> {
    let dispatcher = args.dispatcher.clone();
    let udp = || vec![verdicts::network::udp(&facts::network::loopback_round_trip())];
    let buffers = || vec![verdicts::network::buffers(&facts::network::buffers())];
    let mtu = move || {
        vec![verdicts::network::mtu(&facts::network::route(
            dispatcher.as_deref(),
        ))]
    };
    vec![
        Check::start("udp", SYSTEM_MAX, udp),
        Check::start("udp-buffers", SYSTEM_MAX, buffers),
        Check::start("mtu", SYSTEM_MAX, mtu),
    ]
}

#[cfg(target_os = "linux")]
fn host(args: &DoctorArgs) -> Vec<Check> {
    use facts::host::{files, memory, shared_memory, space};

    let (shm_dir, python) = (args.shm_dir.clone(), args.python.clone());
    let shared = move || vec![verdicts::host::shared_memory(&shared_memory(shm_dir.as_deref()))];
    let dev_shm = || vec![verdicts::host::dev_shm(space("/dev/shm".as_ref()))];
    let python = move || {
        let facts = facts::python::python(python.as_deref());
        vec![verdicts::python::python(&facts, VERSION)]
    };
    vec![
        Check::start("shared-memory", SYSTEM_MAX, shared),
        Check::start("dev-shm", SYSTEM_MAX, dev_shm),
        Check::start("memory", SYSTEM_MAX, || vec![verdicts::host::memory(memory())]),
        Check::start("open-files", SYSTEM_MAX, || vec![verdicts::host::files(files())]),
        Check::start("python", ANSWER_MAX, python),
    ]
}
