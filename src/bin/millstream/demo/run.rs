//! The command: finds the pictures, starts the service, reads every epoch, and reports whether each picture
//! was seen exactly once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use millstream::client::{OnLost, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::link::{ClusterKey, KeySource, LoadedKey};
use millstream::{ReadRequest, Service, ServiceConfig};

use super::album::Album;
use super::census::Census;
use super::cluster::Cluster;
use super::progress::Progress;
use crate::args::DemoArgs;
use crate::console::{bytes_text, say};
use crate::ending::{Brake, Ending, NotDone};
use crate::pictures::{self, pictures};
use crate::transports::transports;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs) -> Result<(), String> {
    if args.workers == 0 || args.epochs == 0 || args.batch == 0 {
        return Err("--workers, --epochs and --batch must each be at least 1".to_owned());
    }
    let parent = std::env::temp_dir();
    let album = args.data.is_none().then(|| Album::open(&parent)).transpose();
    let album = album.map_err(|error| {
        let parent = parent.display();
        format!("cannot write the demo's photographs below {parent}: {error}; set TMPDIR, or name a directory with --data")
    })?;
    let brought = album.as_ref().map(Album::directory);
    let data = args.data.as_deref().or(brought).unwrap_or(Path::new("."));
    let tars = tars(data)?;
    let expected = Census::of_tars(&tars)?;
    if expected.total() == 0 {
        return Err(format!("no .jpg files in the tars of {}", data.display()));
    }
    let ending = Ending::watch(false)?;
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let cluster = Cluster::start(args.workers, &key)?;
    let pids = cluster
        .worker_pids
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    say(&format!(
        "{} pictures in {} tars of {}; dispatcher on {}, {} workers (process {pids})",
        expected.total(),
        tars.len(),
        data.display(),
        cluster.dispatcher,
        args.workers,
    ));
    let brake = Brake::default();
    let viewer = Viewer {
        brake: brake.clone(),
        args: args.clone(),
        data: data.to_owned(),
        dispatcher: cluster.dispatcher.clone(),
        tars,
        expected,
    };
    let key = KeySource::from_setting(&key.to_text())
        .load()
        .map_err(|error| error.to_string())?;
    let outcome = ending.unless(&brake, move || viewer.view(&key));
    drop(cluster);
    drop(album);
    outcome.map_err(NotDone::text)?
}

/// Returns the tars of a directory, in the order in which a dataset lists them.
fn tars(data: &Path) -> Result<Vec<PathBuf>, String> {
    let hint = "name another directory with --data, or omit --data to read the built-in photographs";
    let entries = std::fs::read_dir(data).map_err(|error| format!("{}: {error}; {hint}", data.display()))?;
    let mut tars = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| format!("{}: {error}", data.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            tars.push(path);
        }
    }
    tars.sort();
    if tars.is_empty() {
        Err(format!("no *.tar files in {}; {hint}", data.display()))
    } else {
        Ok(tars)
    }
}

/// The reader of the pictures, which counts them.
#[derive(Debug)]
struct Viewer {
    brake: Brake,
    args: DemoArgs,
    data: PathBuf,
    dispatcher: String,
    tars: Vec<PathBuf>,
    expected: Census,
}

/// The faults that the demo found, one sentence each.
type Complaints = Vec<String>;

impl Viewer {
    fn view(&self, key: &LoadedKey) -> Result<(), String> {
        let config = ServiceConfig::default();
        let service = Service::connect(key, &self.dispatcher, config).map_err(|error| error.to_string())?;
        // The pattern must match brackets and stars in the directory's name literally.
        let data = std::path::absolute(&self.data).map_err(|error| error.to_string())?;
        let data = data
            .to_str()
            .ok_or_else(|| format!("invalid path {}: expected UTF-8", data.display()))?;
        let pattern = format!("{}/*.tar", escaped(data));
        let dataset = pictures(&pattern).batch(self.args.batch, false);
        let dataset = service
            .register(dataset, None)
            .map_err(|error| error.to_string())?;
        let request = ReadRequest::new(dataset, Policy::Dynamic);
        let job = service.job(&request).map_err(|error| error.to_string())?;
        // The demo reports lost splits itself, with the names of their tars.
        let config = ReaderConfig {
            on_lost: OnLost::Ignore,
            ..ReaderConfig::default()
        };
        let mut progress = Progress::new(self.args.epochs * self.expected.total());
        let mut seen = Vec::new();
        let mut complaints = Complaints::new();
        for epoch in 0..self.args.epochs {
            let opened = service.read(job, epoch, &config);
            let outcome = match opened {
                Ok(reader) => self.view_epoch(epoch, reader, &mut progress, &mut seen, &mut complaints),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = outcome {
                complaints.push(format!("epoch {epoch} ended early: {error}"));
                break;
            }
        }
        progress.finish();
        self.dump(&seen)?;
        if !complaints.is_empty() {
            return Err(format!(
                "not every picture was seen exactly once\n  {}",
                complaints.join("\n  ")
            ));
        }
        let (epochs, pictures) = (self.args.epochs, self.expected.total());
        say(&format!(
            "every one of {pictures} pictures was seen exactly once in each of {epochs} epochs"
        ));
        say(&progress.rates());
        Ok(())
    }

    /// Reads one pass. Adds a complaint for pictures that were lost or seen twice.
    ///
    /// # Errors
    /// Reading the pass failed.
    fn view_epoch(
        &self,
        epoch: u64,
        mut reader: Reader,
        progress: &mut Progress,
        seen: &mut Vec<String>,
        complaints: &mut Complaints,
    ) -> Result<(), String> {
        let canceller = reader.canceller();
        self.brake.hold(move || canceller.cancel());
        let mut census = Census::default();
        let outcome = loop {
            let since = Instant::now();
            let element = match reader.next_element() {
                Ok(Some(element)) => element,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.to_string()),
            };
            let waited = since.elapsed();
            let keys = element
                .named(pictures::KEY)
                .ok_or("a batch lacks the component `key`")?;
            let keys = keys.strings().map_err(|error| error.to_string())?;
            for key in keys.iter_str() {
                let key = key.map_err(|error| error.to_string())?;
                census.add(key);
                if self.args.dump_keys.is_some() {
                    seen.push(key.to_owned());
                }
            }
            progress.add(keys.len() as u64, element.slot().len(), waited);
        };
        let stats = reader.stats();
        for lost in &stats.lost_splits {
            let places = lost.first..lost.first.saturating_add(lost.count);
            let tars = places.filter_map(|place| self.tars.get(usize::try_from(place).ok()?));
            let tars = tars
                .map(|tar| tar.display().to_string())
                .collect::<Vec<_>>()
                .join(", ");
            complaints.push(format!(
                "epoch {epoch}: lost {} ({tars})",
                pictures::lost_text(lost)
            ));
        }
        let verdict = match census.complaint(&self.expected) {
            None => "each seen exactly once".to_owned(),
            Some(complaint) => {
                complaints.push(format!("epoch {epoch}: {complaint}"));
                "not each seen exactly once".to_owned()
            }
        };
        let (elapsed_s, bytes) = (stats.elapsed.as_secs_f64(), bytes_text(stats.bytes));
        let by = transports(stats.links.values()).join(", ");
        let line = format!(
            "epoch {epoch}: {} pictures, {bytes} in {elapsed_s:.2} s from {by}, {verdict}",
            census.total()
        );
        progress.suspend(|| say(&line));
        outcome
    }

    fn dump(&self, keys: &[String]) -> Result<(), String> {
        let Some(path) = &self.args.dump_keys else {
            return Ok(());
        };
        let write = || {
            let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
            keys.iter().try_for_each(|key| writeln!(file, "{key}"))?;
            file.flush()
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Returns a glob pattern that matches this path only.
fn escaped(path: &str) -> String {
    let one = |c: char| {
        if matches!(c, '*' | '?' | '[' | ']') {
            format!("[{c}]")
        } else {
            c.to_string()
        }
    };
    path.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_tars_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = tars(directory.path()).unwrap_err();
        assert!(
            error.contains(&directory.path().display().to_string()) && error.contains("--data"),
            "{error}"
        );
        let error = tars(&directory.path().join("absent")).unwrap_err();
        assert!(error.contains("absent") && error.contains("--data"), "{error}");
    }

    #[test]
    fn a_path_is_no_pattern() {
        assert_eq!(escaped("/a[1]/b*?"), "/a[[]1[]]/b[*][?]");
    }
}
