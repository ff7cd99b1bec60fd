//! The throughput of splits, end to end: a dispatcher, workers and a counting reader, each a process, over
//! QUIC on loopback.

use std::time::Instant;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use super::Scale;
use super::processes::{Key, Server, own_cpu_seconds};
use super::table;

/// The number of elements in the dataset `range(0, …)`.
const ELEMENTS: u64 = 10_000_000;
const ELEMENTS_SMALL: u64 = 2_000;
/// The numbers of elements in a split. The targets are rates of splits of at most 1 000 elements, and of
/// splits of one element.
const SPLIT_SIZES: [u64; 4] = [1, 10, 100, 1000];
const WORKERS: usize = 2;

/// Reads the dataset with each split size, first without a work directory and then with one.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    let elements = scale.elements.unwrap_or(scale.pick(ELEMENTS, ELEMENTS_SMALL));
    table::say(&format!(
        "splits: range({elements}) under DYNAMIC, {WORKERS} workers and one reader that counts; processor time in µs a split"
    ))?;
    table::header(&[
        "store",
        "elements/split",
        "splits",
        "seconds",
        "splits/s",
        "elements/s",
        "cpu dispatcher",
        "cpu workers",
        "cpu reader",
    ])?;
    for stored in [false, true] {
        for split_size in SPLIT_SIZES {
            measure(stored, elements, split_size)?;
        }
    }
    Ok(())
}

fn measure(stored: bool, elements: u64, split_size: u64) -> Result<(), String> {
    let key = Key::generate()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let work_dir = folder
        .path()
        .to_str()
        .ok_or("the path of the folder is not UTF-8")?;
    let flags: &[&str] = if stored { &["--work-dir", work_dir] } else { &[] };
    let dispatcher = Server::dispatcher(&key, flags)?;
    let workers: Vec<Server> = (0..WORKERS)
        .map(|_| Server::worker(&key, &dispatcher.address))
        .collect::<Result<_, String>>()?;
    let cpu = || {
        let of_workers = workers.iter().map(Server::cpu_seconds).sum::<f64>();
        [dispatcher.cpu_seconds(), of_workers, own_cpu_seconds()]
    };
    let service = Service::connect(&key.loaded, &dispatcher.address, ServiceConfig::default());
    let service = service.map_err(|error| error.to_string())?;
    let before = cpu();
    let began = Instant::now();
    read(&service, elements, split_size)?;
    let seconds = began.elapsed().as_secs_f64();
    let after = cpu();
    service.close();
    let splits = elements.div_ceil(split_size) as f64;
    let mut cells = vec![
        if stored { "disk" } else { "memory" }.to_owned(),
        split_size.to_string(),
        splits.to_string(),
        format!("{seconds:.2}"),
        format!("{:.0}", splits / seconds),
        format!("{:.0}", elements as f64 / seconds),
    ];
    let cpu = after.iter().zip(before);
    cells.extend(cpu.map(|(after, before)| format!("{:.2}", (after - before) * 1e6 / splits)));
    table::row(&cells)
}

/// Reads all elements, and checks their count and their sum, so that a missing or repeated element is an
/// error.
fn read(service: &Service, elements: u64, split_size: u64) -> Result<(), String> {
    let stop = i64::try_from(elements).map_err(|error| error.to_string())?;
    let dataset = Dataset::range(0, stop, 1).split_size(split_size);
    let dataset = service
        .register(dataset, None)
        .map_err(|error| error.to_string())?;
    let request = ReadRequest::new(dataset, Policy::Dynamic);
    let job = service.job(&request).map_err(|error| error.to_string())?;
    let reader = service.read(job, 0, &ReaderConfig::default());
    let mut reader = reader.map_err(|error| error.to_string())?;
    let (mut count, mut sum) = (0_u64, 0_i64);
    while let Some(element) = reader.next_element().map_err(|error| error.to_string())? {
        let number = element.component(0).ok_or("an element without a component")?;
        let number: &[i64] = number.as_slice().map_err(|error| error.to_string())?;
        count += 1;
        sum += number.iter().sum::<i64>();
    }
    if (count, sum) != (elements, stop * (stop - 1) / 2) {
        return Err(format!(
            "expected {elements} elements, found {count} with the sum {sum}"
        ));
    }
    Ok(())
}
