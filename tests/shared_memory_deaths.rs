//! Tests of readers and workers on one host that are killed or stopped at any instant. The other processes
//! continue, no shared memory leaks, and no element is ever corrupt.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;

use crate::support::cluster::{Cluster, fresh_key};
use crate::support::links::Mechanism;
use crate::support::process::Process;
use crate::support::witness::{self, Witness};
use crate::support::{eventually, watched, watched_for};

/// The name of the test that runs as the readers' process.
const WITNESS: &str = "shared_memory_deaths::a_witness";

#[test]
#[ignore = "runs only as the witness process"]
fn a_witness() {
    witness::testify();
}

#[test]
fn killed_processes_leave_nothing_behind() {
    watched_for(Duration::from_secs(600), "50 kills", || rounds(50));
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_killed_processes_leave_nothing_behind() {
    watched_for(Duration::from_secs(7200), "1000 kills", || rounds(1000));
}

/// A service of separate processes, and a reader that survives all kills.
struct Scene {
    key: String,
    dispatcher: Process,
    workers: Vec<Process>,
    survivor: Witness,
    random: Random,
}

impl Scene {
    fn start(sockets: &Path, seed: u64) -> Self {
        let (_, key) = fresh_key();
        // The short timeouts remove records of killed readers soon.
        let lifetimes = [
            "--client-timeout-s=5",
            "--job-gc-timeout-s=0.2",
            "--job-gc-check-interval-s=0.2",
        ];
        let mut arguments = vec!["dispatcher", "--bind=127.0.0.1:0", "--liveness-s=2"];
        arguments.extend(lifetimes);
        let dispatcher = Process::start(&key, &arguments);
        let workers = (0..2).map(|index| worker(&key, &dispatcher, index, sockets));
        let workers: Vec<Process> = workers.collect();
        let mut survivor = Witness::start(WITNESS, &key, &dispatcher.address, false);
        survivor.is_reading();
        eventually("links of the survivor", &2, || shm_links(&mut survivor));
        // The survivor maps an arena with the first element in the arena.
        eventually("arenas of the survivor", &2, || {
            Held::by(survivor.id()).mapped("millstream-arena")
        });
        // The survivor closes the descriptor of an arena after it has mapped the arena.
        eventually("descriptors of arenas", &0, || {
            Held::by(survivor.id()).open_arenas()
        });
        Self {
            key,
            dispatcher,
            workers,
            survivor,
            random: Random(seed | 1),
        }
    }

    /// Kills a reader at a random instant of its life.
    fn kill_a_reader(&mut self, baseline: &[Held]) {
        let victim = Witness::start(WITNESS, &self.key, &self.dispatcher.address, false);
        if self.random.below(3) > 0 {
            victim.is_reading();
            std::thread::sleep(Duration::from_micros(self.random.below(20_000)));
        } else {
            // The delay ends between the reader's start and its first elements.
            std::thread::sleep(Duration::from_micros(self.random.below(150_000)));
        }
        victim.kill();
        for (worker, before) in self.workers.iter().zip(baseline) {
            eventually("what a worker holds for links", &before.of_links(), || {
                Held::by(worker.id()).of_links()
            });
        }
    }

    /// Kills a worker, and starts another worker in its place.
    fn kill_a_worker(&mut self, sockets: &Path, before: &Held) {
        let index = self.random.below(2) as usize;
        self.workers.remove(index).signal("KILL");
        let another = worker(&self.key, &self.dispatcher, index, sockets);
        self.workers.insert(index, another);
        eventually("links of the workers", &[1, 1], || {
            [0, 1].map(|index| Held::by(self.workers[index].id()).mapped("millstream-link"))
        });
        // The survivor releases the memory of the dead worker, and maps as much memory of the new worker.
        eventually("what the survivor holds", before, || Held::by(self.survivor.id()));
    }

    /// Checks that the survivor continues to read from both workers through shared memory.
    fn goes_on(&mut self, since: u64) -> u64 {
        let account = self.survivor.account();
        assert!(account.elements > since, "{account:?}");
        assert!(!account.links.contains("quic"), "{account:?}");
        account.elements
    }
}

fn worker(key: &str, dispatcher: &Process, index: usize, sockets: &Path) -> Process {
    let sockets = sockets.to_str().expect("a path of letters");
    let mut arguments = vec![
        "worker",
        "--dispatcher",
        &dispatcher.address,
        "--bind=127.0.0.1:0",
    ];
    // The socket of worker 1 is a file; the socket of worker 0 has no file.
    if index == 1 {
        arguments.extend(["--shm-dir", sockets]);
    }
    Process::start(key, &arguments)
}

/// Returns the number of workers that the witness reads through shared memory.
fn shm_links(witness: &mut Witness) -> usize {
    witness.account().links.matches("shm").count()
}

#[expect(
    clippy::print_stdout,
    reason = "the output of a failure needs the seed and the round"
)]
fn rounds(count: u64) {
    let seed = std::env::var("MILLSTREAM_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | u64::from(jiffy()));
    println!("MILLSTREAM_TEST_SEED={seed}");
    let directory = tempfile::tempdir().expect("a directory");
    let sockets = directory.path().join("sockets");
    let mut scene = Scene::start(&sockets, seed);
    let survivor = Held::by(scene.survivor.id());
    let mut read = 0;
    let mut workers: Vec<Held> = scene.workers.iter().map(|worker| Held::by(worker.id())).collect();
    for round in 0..count {
        println!("round {round}");
        if scene.random.below(10) == 0 {
            scene.kill_a_worker(&sockets, &survivor);
            workers = scene.workers.iter().map(|worker| Held::by(worker.id())).collect();
        } else {
            scene.kill_a_reader(&workers);
        }
        read = scene.goes_on(read);
    }
    // A mapping of an arena exists as long as an element in the arena is used. The tasks of dead readers end
    // with their leases.
    for worker in &scene.workers {
        eventually("arenas of a worker", &1, || {
            Held::by(worker.id()).mapped("millstream-arena")
        });
    }
    assert_eq!(named_in(Path::new("/dev/shm")), Vec::<String>::new());
    scene.survivor.ends_well();
    for worker in scene.workers {
        eventually("what a worker holds", &0, || {
            Held::by(worker.id()).mapped("millstream-link")
        });
        assert!(worker.ends_well());
    }
    assert!(scene.dispatcher.ends_well());
    let left: Vec<_> = std::fs::read_dir(&sockets).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the entries of a directory that belong to Millstream.
fn named_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("millstream")).collect()
}

/// The open files and the mapped memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    /// The number of open descriptors, by their kind.
    open: BTreeMap<String, usize>,
    /// The number of mappings of shared memory, by name.
    mapped: BTreeMap<String, usize>,
}

impl Held {
    fn by(process: u32) -> Self {
        let (mut open, mut mapped) = (BTreeMap::new(), BTreeMap::new());
        let listed = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives");
        for target in listed
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        {
            let target = target.to_string_lossy().into_owned();
            // The targets of sockets and similar descriptors differ only in a number.
            let kind = target.split([':', ' ']).next().unwrap_or_default();
            let kind = if kind == "/memfd" { &target } else { kind };
            *open.entry(kind.to_owned()).or_default() += 1;
        }
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives");
        for name in maps.lines().filter_map(|line| line.split_once("/memfd:")) {
            let name = name.1.split(' ').next().unwrap_or_default();
            *mapped.entry(name.to_owned()).or_default() += 1;
        }
        Self { open, mapped }
    }

    fn mapped(&self, name: &str) -> usize {
        self.mapped.get(name).copied().unwrap_or_default()
    }

    /// Returns the number of open descriptors of arenas.
    fn open_arenas(&self) -> usize {
        let arenas = self
            .open
            .iter()
            .filter(|(kind, _)| kind.contains("millstream-arena"));
        arenas.map(|(_, count)| count).sum()
    }

    /// Returns the number of sockets, and of mappings of links' rings, which exist as long as an element is
    /// borrowed.
    fn of_links(&self) -> (usize, usize) {
        let sockets = self.open.get("socket").copied().unwrap_or_default();
        (sockets, self.mapped("millstream-link"))
    }
}

/// A generator of numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

/// Returns a number that differs from run to run.
fn jiffy() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.subsec_nanos())
}

/// D10.8.
#[test]
fn a_stopped_reader_delays_nobody_and_resumes() {
    watched("a stopped reader", || {
        // The task has little shared memory, so that memory is reused soon.
        let scarce = |config: &mut millstream::WorkerConfig| config.shm_bytes_per_task = Some(16 << 20);
        let functions = vec![Functions::new()];
        let cluster = Cluster::start_with(Mechanism::Shm, functions, &EndpointConfig::default(), scarce);
        let start = || Witness::start(WITNESS, &cluster.key_text, &cluster.address, true);
        let (mut stopped, mut other) = (start(), start());
        for witness in [&mut stopped, &mut other] {
            witness.is_reading();
            eventually("links", &1, || shm_links(witness));
        }
        let links = || cluster.workers[0].server().links().len();
        eventually("links of the worker", &2, links);
        stopped.signal("STOP");
        let before = other.account().elements;
        eventually("links of the worker", &1, links);
        assert!(other.account().elements > before);
        stopped.signal("CONT");
        // The resumed reader checks all elements that it held, which must be unchanged. The following
        // elements come over the network.
        eventually("that it reads over the network", &true, || {
            let account = stopped.account();
            account
                .links
                .contains("quic (the link through shared memory broke")
        });
        let elements = stopped.account().elements;
        eventually("that memory was used again", &true, || {
            stopped.account().elements > elements + 1000
        });
        stopped.ends_well();
        other.ends_well();
        eventually("links of the worker", &0, links);
    });
}
