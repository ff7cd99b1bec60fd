//! The admin port: the time of a scrape and the cost of live pages with many tasks, and the cost of scrapes
//! while a worker serves elements.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millstream::client::{Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use super::Scale;
use super::peers::{SETTLING, SETTLING_SMALL, start_readers, start_workers};
use super::processes::{Key, Server};
use super::table;

/// The number of workers, and of readers. Each worker has a task.
const TASKS: usize = 1000;
const TASKS_SMALL: usize = 4;
/// The numbers of live pages that look at the dispatcher.
const VIEWERS: [usize; 3] = [0, 1, 10];
/// The name of the thread that serves an admin port.
const PORT_THREAD: &str = "admin";
/// The time between the starts of two live pages, so that ten of them are spread over a second.
const STAGGER: Duration = Duration::from_millis(97);
const MEASURED: Duration = Duration::from_secs(30);
const MEASURED_SMALL: Duration = Duration::from_millis(300);
const SCRAPES: usize = 50;
const SCRAPES_SMALL: usize = 2;
/// The numbers of numbers in an element: 1 KiB and 1 MiB.
const ELEMENT_NUMBERS: [u64; 2] = [128, 131_072];
/// The time between two scrapes of each process. Prometheus scrapes every 15 s to 60 s.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// The time of a round without, and of a round with scrapes.
const ROUND: Duration = Duration::from_secs(4);
const ROUND_SMALL: Duration = Duration::from_millis(200);
const ROUNDS: usize = 10;
const ROUNDS_SMALL: usize = 1;

/// Measures all costs of the admin port.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(with_tasks(scale))?;
    with_elements(scale)
}

/// Measures scrapes and live pages of a dispatcher with many tasks.
async fn with_tasks(scale: Scale) -> Result<(), String> {
    let tasks = scale.pick(TASKS, TASKS_SMALL);
    let key = Key::generate()?;
    let admin = free_port()?;
    let dispatcher = Server::dispatcher(&key, &["--admin", &admin.to_string()])?;
    let workers = start_workers(&key, &dispatcher.address, tasks).await?;
    let readers = start_readers(&key, &dispatcher.address, tasks).await?;
    tokio::time::sleep(scale.pick(SETTLING, SETTLING_SMALL)).await;
    let measured = tokio::task::spawn_blocking(move || -> Result<(), String> {
        scrapes(&dispatcher, admin, tasks, scale)?;
        viewers(&dispatcher, admin, tasks, scale)
    });
    measured.await.map_err(|error| error.to_string())??;
    drop((workers, readers));
    Ok(())
}

fn scrapes(dispatcher: &Server, admin: SocketAddr, tasks: usize, scale: Scale) -> Result<(), String> {
    table::say(&format!(
        "admin: a dispatcher with {tasks} workers, tasks and readers"
    ))?;
    table::header(&["request", "bytes", "median ms", "longest ms", "cpu ms each"])?;
    for path in ["/metrics", "/api/v1/status"] {
        let count = scale.pick(SCRAPES, SCRAPES_SMALL);
        let (before, mut times, mut bytes) = (dispatcher.cpu_seconds(), Vec::new(), 0);
        for _ in 0..count {
            let began = Instant::now();
            bytes = get(admin, path)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            // A later request gets a new observation.
            thread::sleep(Duration::from_millis(300));
        }
        times.sort_by(f64::total_cmp);
        let cpu_ms = (dispatcher.cpu_seconds() - before) * 1e3 / count as f64;
        table::row(&[
            path.to_owned(),
            bytes.to_string(),
            format!("{:.1}", times[times.len() / 2]),
            format!("{:.1}", times[times.len() - 1]),
            format!("{cpu_ms:.1}"),
        ])?;
    }
    Ok(())
}

fn viewers(dispatcher: &Server, admin: SocketAddr, tasks: usize, scale: Scale) -> Result<(), String> {
    let time = scale.pick(MEASURED, MEASURED_SMALL);
    table::say(&format!(
        "admin: live pages of {tasks} tasks, over {} s; cores used by the dispatcher, which handles heartbeats \
         too, and by the thread of its admin port",
        time.as_secs_f64()
    ))?;
    table::header(&["viewers", "MB/s to them", "cores", "of the port"])?;
    for count in VIEWERS {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(Viewer::start(admin, "/api/v1/live")?);
            thread::sleep(STAGGER);
        }
        let used = || {
            [
                dispatcher.cpu_seconds(),
                dispatcher.thread_cpu_seconds(PORT_THREAD),
            ]
        };
        let (before, began) = (used(), Instant::now());
        thread::sleep(time);
        let (after, seconds) = (used(), began.elapsed().as_secs_f64());
        let cores = |of: usize| format!("{:.4}", (after[of] - before[of]) / seconds);
        let bytes: u64 = all.into_iter().map(Viewer::stop).sum();
        if count > 0 && bytes == 0 {
            return Err("the live pages received nothing".to_owned());
        }
        table::row(&[
            count.to_string(),
            format!("{:.2}", bytes as f64 / 1e6 / seconds),
            cores(0),
            cores(1),
        ])?;
    }
    Ok(())
}

/// Measures the rate of elements without and with scrapes of the dispatcher and the worker, in turns.
fn with_elements(scale: Scale) -> Result<(), String> {
    let (rounds, time) = (scale.pick(ROUNDS, ROUNDS_SMALL), scale.pick(ROUND, ROUND_SMALL));
    table::say(&format!(
        "admin: one worker and one reader, with and without a scrape of both processes each second: {rounds} \
         rounds of {} s each; processor time of dispatcher and worker in µs an element",
        time.as_secs_f64()
    ))?;
    table::header(&[
        "KiB an element",
        "elements/s",
        "with scrapes",
        "ratio",
        "cpu",
        "cpu with",
        "ratio",
    ])?;
    for numbers in ELEMENT_NUMBERS {
        let key = Key::generate()?;
        let (admin, worker_admin) = (free_port()?, free_port()?);
        let dispatcher = Server::dispatcher(&key, &["--admin", &admin.to_string()])?;
        let flags = ["--admin", &worker_admin.to_string()];
        let worker = Server::worker_with(&key, &dispatcher.address, &flags)?;
        let service = Service::connect(&key.loaded, &dispatcher.address, ServiceConfig::default());
        let service = service.map_err(|error| error.to_string())?;
        let dataset = Dataset::range(0, i64::MAX / 2, 1).batch(numbers, true);
        let dataset = service
            .register(dataset, None)
            .map_err(|error| error.to_string())?;
        let job = service.job(&ReadRequest::new(dataset, Policy::Off));
        let job = job.map_err(|error| error.to_string())?;
        let mut reader = service
            .read(job, 0, &ReaderConfig::default())
            .map_err(|error| error.to_string())?;
        let servers = Servers {
            dispatcher,
            worker,
            admins: [admin, worker_admin],
        };
        let cells = in_turns(&mut reader, &servers, rounds, time)?;
        drop(reader);
        service.close();
        let kib = (numbers * 8 / 1024).to_string();
        table::row(&[vec![kib], cells].concat())?;
    }
    Ok(())
}

/// A dispatcher and its worker, with their admin ports.
struct Servers {
    dispatcher: Server,
    worker: Server,
    admins: [SocketAddr; 2],
}

impl Servers {
    fn cpu_seconds(&self) -> f64 {
        self.dispatcher.cpu_seconds() + self.worker.cpu_seconds()
    }
}

/// Reads in rounds, of which every second one has scrapes. Returns the medians without and with scrapes, and
/// their ratio, of rates and of costs.
fn in_turns(
    reader: &mut Reader,
    servers: &Servers,
    rounds: usize,
    time: Duration,
) -> Result<Vec<String>, String> {
    let (mut rates, mut costs) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..2 * rounds + 1 {
        let is_scraped = round % 2 == 1;
        let scraped = servers.admins.iter().filter(|_| is_scraped);
        let scrapers: Vec<Scraper> = scraped.map(|admin| Scraper::start(*admin)).collect();
        let (before, began, mut count) = (servers.cpu_seconds(), Instant::now(), 0);
        while began.elapsed() < time {
            reader.next_element().map_err(|error| error.to_string())?;
            count += 1;
        }
        let cpu = servers.cpu_seconds() - before;
        scrapers.into_iter().try_for_each(Scraper::stop)?;
        // The first round warms up.
        if round > 0 {
            rates[usize::from(is_scraped)].push(f64::from(count) / began.elapsed().as_secs_f64());
            costs[usize::from(is_scraped)].push(cpu * 1e6 / f64::from(count));
        }
    }
    let ([rate, rate_with], [cost, cost_with]) = (rates.map(median), costs.map(median));
    Ok(vec![
        format!("{rate:.0}"),
        format!("{rate_with:.0}"),
        format!("{:.3}", rate_with / rate),
        format!("{cost:.2}"),
        format!("{cost_with:.2}"),
        format!("{:.3}", cost_with / cost),
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn free_port() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map_err(|error| error.to_string())
}

/// Sends a request, and returns the number of bytes of the answer.
fn get(admin: SocketAddr, path: &str) -> Result<usize, String> {
    let mut answer = Vec::new();
    let mut stream = request(admin, path)?;
    stream
        .read_to_end(&mut answer)
        .map_err(|error| error.to_string())?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&answer).into_owned());
    }
    Ok(answer.len())
}

fn request(admin: SocketAddr, path: &str) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("{admin}{path}: {error}");
    let mut stream = TcpStream::connect(admin).map_err(failed)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .map_err(failed)?;
    // Browsers and Prometheus accept gzip.
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).map_err(failed)?;
    Ok(stream)
}

/// A thread that receives live pages.
struct Viewer {
    received: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Viewer {
    fn start(admin: SocketAddr, path: &str) -> Result<Viewer, String> {
        let mut stream = request(admin, path)?;
        let (received, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, over) = (Arc::clone(&received), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while !over.load(Ordering::Relaxed)
                && let Ok(count @ 1..) = stream.read(&mut buffer)
            {
                counted.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        Ok(Viewer {
            received,
            ended,
            thread,
        })
    }

    /// Ends the thread, and returns the number of received bytes.
    fn stop(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        // A panic of the thread leaves its count.
        self.thread.join().ok();
        self.received.load(Ordering::Relaxed)
    }
}

/// A thread that scrapes a process.
struct Scraper {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Scraper {
    fn start(admin: SocketAddr) -> Scraper {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                get(admin, "/metrics")?;
                thread::park_timeout(SCRAPE_EVERY);
            }
            Ok(())
        });
        Scraper { ended, thread }
    }

    fn stop(self) -> Result<(), String> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().map_err(|_| "a scraper panicked".to_owned())?
    }
}
