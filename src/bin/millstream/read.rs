//! `millstream read`: a small consumer. Prints the number of rows, the rates, and a digest of the rows.

use std::sync::Arc;

use millstream::client::{MaxOutstanding, Notice, OnLost, Reader, ReaderConfig};
use millstream::control::rpc::SessionConfig;
use millstream::control::{DatasetId, Policy};
use millstream::link::LoadedKey;
use millstream::pipeline::graph::Dataset;
use millstream::trace::Tracer;
use millstream::{GiveUp, ReadRequest, Service, ServiceConfig};

use crate::args::{ReadArgs, Sharding};
use crate::console::{bytes_text, note, say};
use crate::digest::Digest;
use crate::ending::{Brake, Ending, NotDone};
use crate::pictures::{self, pictures};
use crate::transports::transports;
use crate::{key, worker};

/// Runs the command.
pub(crate) fn run(args: &ReadArgs) -> Result<(), String> {
    let dataset = Source::of(args)?;
    let session = SessionConfig {
        give_up: worker::seconds("--dispatcher-timeout-s", args.dispatcher_timeout_s)?,
        ..worker::patience(args.wait_s)?
    };
    let config = ServiceConfig {
        session,
        no_shared_memory: args.no_shm,
        ..ServiceConfig::default()
    };
    let key = key::load(&args.identity)?;
    let ending = Ending::watch(false)?;
    let args = args.clone();
    let brake = Brake::default();
    let held = brake.clone();
    let outcome = ending.unless(&brake, move || read(&args, dataset, &key, config, &held));
    outcome.map_err(NotDone::text)?
}

/// The dataset to read, and the components that the digest covers.
#[derive(Debug)]
struct Source {
    dataset: Dataset,
    digested: &'static [&'static str],
}

impl Source {
    fn of(args: &ReadArgs) -> Result<Self, String> {
        let (dataset, digested): (Dataset, &[&str]) = match (&args.files, args.range) {
            (Some(pattern), None) => (pictures(pattern), &[pictures::KEY, pictures::LABEL]),
            (None, Some(count)) => {
                let stop =
                    i64::try_from(count).map_err(|_| format!("--range {count}: at most {}", i64::MAX))?;
                let range = Dataset::range(0, stop, 1);
                let range = match args.split_size {
                    Some(elements) => range.split_size(elements),
                    None => range,
                };
                (range, &[""])
            }
            (None, None) => return Err("nothing to read: add --files PATTERN or --range N".to_owned()),
            (Some(_), Some(_)) => return Err("use either --files or --range, not both".to_owned()),
        };
        let dataset = if args.batch > 0 {
            dataset.batch(args.batch, false)
        } else {
            dataset
        };
        let is_endless = args.trainer_id.is_some();
        let dataset = if is_endless { dataset.repeat(None) } else { dataset };
        Ok(Self { dataset, digested })
    }
}

fn read(
    args: &ReadArgs,
    source: Source,
    key: &LoadedKey,
    config: ServiceConfig,
    brake: &Brake,
) -> Result<(), String> {
    let tracer = args.traces.start("reader", "read")?;
    let give_up = config.give_up.clone();
    let given_up = give_up.clone();
    brake.hold(move || given_up.give_up());
    let service = Service::connect(key, &args.dispatcher, config).map_err(|error| error.to_string())?;
    let outcome = read_from(&service, args, source, (brake, &give_up), &tracer);
    // The service closes after an error too, so that the dispatcher gets the reader's splits back at once.
    service.close();
    tracer.end();
    outcome
}

fn read_from(
    service: &Service,
    args: &ReadArgs,
    source: Source,
    (brake, give_up): (&Brake, &GiveUp),
    tracer: &Tracer,
) -> Result<(), String> {
    // The id depends only on the pipeline, so that readers of the same pipeline can share a job.
    let definition = source.dataset.clone().graph().and_then(|graph| graph.to_bytes());
    let mut identity = Digest::default();
    identity.add([definition.map_err(|error| error.to_string())?.as_slice()]);
    let id = DatasetId::new(&format!("read-{identity}")).map_err(|error| error.to_string())?;
    let dataset = service
        .register(source.dataset, Some(id))
        .map_err(|error| error.to_string())?;
    let policy = match args.sharding {
        Sharding::Off => Policy::Off,
        Sharding::Dynamic => Policy::Dynamic,
        Sharding::File => Policy::File,
        Sharding::Data => Policy::Data,
        Sharding::FileOrData => Policy::FileOrData,
        Sharding::Hint => Policy::Hint,
    };
    let request = ReadRequest {
        job_name: args.job_name.clone(),
        target_workers: args.target_workers,
        num_consumers: args.num_consumers,
        cross_trainer_cache: args.trainer_id.is_some(),
        ..ReadRequest::new(dataset, policy)
    };
    let job = service.job(&request).map_err(|error| error.to_string())?;
    let max_outstanding = match args.max_outstanding {
        0 => MaxOutstanding::Auto,
        elements => MaxOutstanding::Elements(elements),
    };
    let config = ReaderConfig {
        max_outstanding,
        consumer: args.consumer,
        trainer_id: args.trainer_id.clone(),
        on_lost: args.on_lost,
        on_notice: Some(Arc::new(|notice: &Notice| note(&notice.to_string()))),
        tracer: tracer.clone(),
        ..ReaderConfig::default()
    };
    for epoch in 0..args.epochs {
        let reader = service
            .read(job, epoch, &config)
            .map_err(|error| error.to_string())?;
        let (canceller, give_up) = (reader.canceller(), give_up.clone());
        brake.hold(move || {
            canceller.cancel();
            give_up.give_up();
        });
        read_epoch(epoch, reader, args, source.digested)?;
    }
    Ok(())
}

/// Reads one pass, or its first steps, and prints the result.
fn read_epoch(epoch: u64, mut reader: Reader, args: &ReadArgs, digested: &[&str]) -> Result<(), String> {
    let mut digest = Digest::default();
    let mut left = args.steps.unwrap_or(u64::MAX);
    let ended = loop {
        if left == 0 {
            break Ok(());
        }
        left -= 1;
        match reader.next_element() {
            Ok(Some(element)) => digest.add_element(&element, digested, args.batch > 0)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.to_string()),
        }
    };
    let stats = reader.stats();
    let elapsed_s = stats.elapsed.as_secs_f64();
    let per_second = if elapsed_s > 0.0 {
        digest.rows as f64 / elapsed_s
    } else {
        0.0
    };
    say(&format!(
        "epoch {epoch}: {} elements, {} in {elapsed_s:.3} s, {per_second:.0} elements/s, waited {:.0} %, bottleneck {}, \
         digest {digest}",
        digest.rows,
        bytes_text(stats.bytes),
        100.0 * stats.wait_share(),
        stats.bottleneck.name(),
    ));
    for line in transports(stats.links.values()) {
        note(&line);
    }
    if args.on_lost != OnLost::Ignore {
        for lost in &stats.lost_splits {
            note(&format!("lost: {}", pictures::lost_text(lost)));
        }
    }
    ended
}
