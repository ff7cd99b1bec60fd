//! The parameters of a job: its dataset and the way in which the dataset is read. All requests for one job
//! name must have equal parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

use crate::error::Error;
use crate::exactly_once::ExactlyOnce;
use crate::id::DatasetId;
use crate::whereabouts::Whereabouts;

/// The sharding policy: the rule that divides a dataset among workers. The numbers are part of the wire
/// format and never change their meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Policy {
    /// Each worker produces the whole dataset.
    #[default]
    #[n(0)]
    Off,
    /// The dispatcher leases splits to workers on request.
    #[n(1)]
    Dynamic,
    /// Each worker reads a fixed share of the files.
    #[n(2)]
    File,
    /// Each worker reads a fixed share of the elements.
    #[n(3)]
    Data,
    /// Each worker reads a share of the files if possible, and otherwise a share of the elements.
    #[n(4)]
    FileOrData,
    /// Each worker reads a fixed share, divided at the pipeline's `shard` hint.
    #[n(5)]
    Hint,
}

impl Policy {
    const NAMES: [(Policy, &'static str); 6] = [
        (Policy::Off, "off"),
        (Policy::Dynamic, "dynamic"),
        (Policy::File, "file"),
        (Policy::Data, "data"),
        (Policy::FileOrData, "file_or_data"),
        (Policy::Hint, "hint"),
    ];

    /// Returns the policy's name, as used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Off => "off",
            Policy::Dynamic => "dynamic",
            Policy::File => "file",
            Policy::Data => "data",
            Policy::FileOrData => "file_or_data",
            Policy::Hint => "hint",
        }
    }

    /// Returns whether the policy divides a dataset into fixed shares, one for each worker of a fixed list.
    pub fn is_static(self) -> bool {
        match self {
            Policy::Off | Policy::Dynamic => false,
            Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => true,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a text that is not a sharding policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sharding policy: use off, dynamic, file, data, file_or_data or hint")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Policy, UnknownPolicy> {
        let lower = text.to_ascii_lowercase();
        let name = match lower.as_str() {
            "parallel_epochs" => "off",
            "distributed_epoch" => "dynamic",
            other => other,
        };
        Policy::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(policy, _)| *policy)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// The workers whose elements a reader takes. All readers of a named job must have the same setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum TargetWorkers {
    /// All workers, except for workers that serve only their own process.
    #[default]
    #[n(0)]
    Auto,
    /// All workers.
    #[n(1)]
    Any,
    /// The workers in the reader's process.
    #[n(2)]
    Local,
    /// The workers on the reader's host.
    #[n(3)]
    Host,
}

impl TargetWorkers {
    const NAMES: [(TargetWorkers, &'static str); 4] = [
        (TargetWorkers::Auto, "auto"),
        (TargetWorkers::Any, "any"),
        (TargetWorkers::Local, "local"),
        (TargetWorkers::Host, "host"),
    ];

    /// Returns the name, as used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TargetWorkers::Auto => "auto",
            TargetWorkers::Any => "any",
            TargetWorkers::Local => "local",
            TargetWorkers::Host => "host",
        }
    }
}

impl fmt::Display for TargetWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a text that is not a setting of target workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a setting of target_workers: use auto, any, local or host")]
pub struct UnknownTargetWorkers(String);

impl FromStr for TargetWorkers {
    type Err = UnknownTargetWorkers;

    /// Parses the name in any case; an empty text means `auto`, like in the tf.data service.
    fn from_str(text: &str) -> Result<TargetWorkers, UnknownTargetWorkers> {
        if text.is_empty() {
            return Ok(TargetWorkers::Auto);
        }
        TargetWorkers::NAMES
            .iter()
            .find(|(_, known)| text.eq_ignore_ascii_case(known))
            .map(|(target, _)| *target)
            .ok_or_else(|| UnknownTargetWorkers(text.to_owned()))
    }
}

/// The placement of a service's trainers and workers. The mode only decides the meaning of `auto` under
/// static sharding (C14.4). The dispatcher announces the mode to every process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum DeploymentMode {
    /// No mode was set, which means the same as `remote`.
    #[default]
    #[n(0)]
    Unspecified,
    /// Each trainer has its own workers, in its process.
    #[n(1)]
    Colocated,
    /// Workers run outside of the trainers' processes.
    #[n(2)]
    Remote,
    /// Some workers run in trainers' processes, and some outside.
    #[n(3)]
    Hybrid,
}

impl DeploymentMode {
    const NAMES: [(DeploymentMode, &'static str); 4] = [
        (DeploymentMode::Unspecified, "unspecified"),
        (DeploymentMode::Colocated, "colocated"),
        (DeploymentMode::Remote, "remote"),
        (DeploymentMode::Hybrid, "hybrid"),
    ];

    /// Returns the name, as used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DeploymentMode::Unspecified => "unspecified",
            DeploymentMode::Colocated => "colocated",
            DeploymentMode::Remote => "remote",
            DeploymentMode::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for DeploymentMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a text that is not a deployment mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a deployment mode: use colocated, remote, hybrid or unspecified")]
pub struct UnknownDeploymentMode(String);

impl FromStr for DeploymentMode {
    type Err = UnknownDeploymentMode;

    /// Parses the name in any case.
    fn from_str(text: &str) -> Result<DeploymentMode, UnknownDeploymentMode> {
        DeploymentMode::NAMES
            .iter()
            .find(|(_, known)| text.eq_ignore_ascii_case(known))
            .map(|(mode, _)| *mode)
            .ok_or_else(|| UnknownDeploymentMode(text.to_owned()))
    }
}

/// The tag of workers that serve only readers of their own process, in any case, under target workers
/// `auto`.
const COLOCATED: &str = "COLOCATED";

fn is_colocated(tags: &[String]) -> bool {
    tags.iter().any(|tag| tag.eq_ignore_ascii_case(COLOCATED))
}

/// The handling of an unfinished iteration whose last reader has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Abandoned {
    /// The iteration waits for another reader: for the job GC timeout, or without limit under `dynamic`
    /// (C3.6).
    #[default]
    #[n(0)]
    Waits,
    /// The iteration waits for another reader for the job GC timeout.
    #[n(1)]
    Expires,
    /// The iteration ends at once, because no other process knows of its job.
    #[n(2)]
    Ends,
}

impl Abandoned {
    /// Returns the name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Abandoned::Waits => "waits",
            Abandoned::Expires => "expires",
            Abandoned::Ends => "ends",
        }
    }
}

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parameters that all readers of a job must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobParameters {
    /// The dataset to read.
    #[n(0)]
    pub dataset: DatasetId,
    /// The sharding policy.
    #[n(1)]
    pub policy: Policy,
    /// The workers whose elements the readers take.
    #[n(2)]
    pub target_workers: TargetWorkers,
    /// The number of consumers, which read in step; `None` if the job is not a coordinated read.
    #[n(3)]
    pub num_consumers: Option<u32>,
    /// True if trainers share the elements that the workers keep.
    #[cbor(n(4), default)]
    pub cross_trainer_cache: bool,
    /// The handling of an unfinished iteration whose last reader has left.
    #[cbor(n(5), default)]
    pub abandoned: Abandoned,
    /// True if readers take elements in the order of their splits, and wait for the earliest missing split.
    #[cbor(n(6), default)]
    pub in_order: bool,
    /// The settings of an exactly-once job (C16); `None` for any other job.
    #[n(7)]
    pub exactly_once: Option<ExactlyOnce>,
}

impl JobParameters {
    /// Returns the parameters of a plain reading of a dataset under a policy.
    pub fn new(dataset: DatasetId, policy: Policy) -> JobParameters {
        JobParameters {
            dataset,
            policy,
            target_workers: TargetWorkers::Auto,
            num_consumers: None,
            cross_trainer_cache: false,
            abandoned: Abandoned::Waits,
            in_order: false,
            exactly_once: None,
        }
    }

    /// Returns the parameters for a service with this deployment mode. Under `colocated` and static
    /// sharding, target workers `auto` become `local`: each trainer reads the shares of its own workers
    /// (C14.4).
    #[must_use]
    pub fn deployed(mut self, mode: DeploymentMode) -> JobParameters {
        if self.policy.is_static()
            && self.target_workers == TargetWorkers::Auto
            && mode == DeploymentMode::Colocated
        {
            self.target_workers = TargetWorkers::Local;
        }
        self
    }

    /// Returns whether a reader reads a worker with these tags (C14.1). In coordinated reads every reader
    /// reads all workers.
    pub(crate) fn admits(&self, reader: &Whereabouts, worker: &Whereabouts, tags: &[String]) -> bool {
        self.admits_everybody(tags)
            || match self.target_workers {
                TargetWorkers::Any => true,
                TargetWorkers::Auto | TargetWorkers::Local => reader.is_same_process(worker),
                TargetWorkers::Host => reader.is_same_host(worker),
            }
    }

    /// Returns whether every reader reads a worker with these tags, independent of their hosts and
    /// processes.
    pub(crate) fn admits_everybody(&self, tags: &[String]) -> bool {
        self.num_consumers.is_some()
            || match self.target_workers {
                TargetWorkers::Any => true,
                TargetWorkers::Auto => !is_colocated(tags),
                TargetWorkers::Local | TargetWorkers::Host => false,
            }
    }

    /// Returns whether only readers in the worker's own process read a worker with these tags (C14.5).
    pub(crate) fn is_private(&self, tags: &[String]) -> bool {
        !self.admits_everybody(tags) && self.target_workers != TargetWorkers::Host
    }

    /// Returns the error of a reader that reads the workers of its process while no worker runs there
    /// (C14.4).
    pub fn without_local_worker(&self) -> Error {
        let policy = self.policy;
        if policy.is_static() {
            return Error::invalid(format!(
                "under the sharding policy `{policy}` and target_workers `local`, which `auto` means where the dispatcher's \
                 deployment mode is `colocated`, each process reads the share of its own workers, and this \
                 process has no worker: start a \
                 worker in it, or read with target_workers `any`"
            ));
        }
        Error::invalid(
            "target_workers `local` reads the workers of this process, and this process has none: start a \
            worker in it with the \
             same `LocalWorkers`, or read with target_workers `auto` or `any`",
        )
    }

    /// Returns a text for each difference between these parameters and `wanted`; empty if both are equal.
    pub(crate) fn differences(&self, wanted: &JobParameters) -> Vec<String> {
        let consumers = |count: Option<u32>| count.map_or("none".to_owned(), |count| count.to_string());
        let once =
            |once: &Option<ExactlyOnce>| once.as_ref().map_or("none".to_owned(), |once| once.to_string());
        let pairs = [
            ("dataset", self.dataset.to_string(), wanted.dataset.to_string()),
            (
                "sharding policy",
                self.policy.to_string(),
                wanted.policy.to_string(),
            ),
            (
                "target_workers",
                self.target_workers.to_string(),
                wanted.target_workers.to_string(),
            ),
            (
                "num_consumers",
                consumers(self.num_consumers),
                consumers(wanted.num_consumers),
            ),
            (
                "cross-trainer cache",
                self.cross_trainer_cache.to_string(),
                wanted.cross_trainer_cache.to_string(),
            ),
            (
                "the handling of an abandoned iteration",
                self.abandoned.to_string(),
                wanted.abandoned.to_string(),
            ),
            ("in_order", self.in_order.to_string(), wanted.in_order.to_string()),
            (
                "exactly_once",
                once(&self.exactly_once),
                once(&wanted.exactly_once),
            ),
        ];
        pairs
            .into_iter()
            .filter(|(_, existing, wanted)| existing != wanted)
            .map(|(what, existing, wanted)| format!("{what} is {existing}, not {wanted}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_names_and_aliases() {
        for (policy, name) in Policy::NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(policy));
            assert_eq!(policy.name(), name);
        }
        assert_eq!("parallel_epochs".parse(), Ok(Policy::Off));
        assert_eq!("distributed_epoch".parse(), Ok(Policy::Dynamic));
        assert!("everything".parse::<Policy>().is_err());
    }

    #[test]
    fn target_workers_are_found_by_name() {
        for (target, name) in TargetWorkers::NAMES {
            for text in [name.to_owned(), name.to_uppercase(), target.to_string()] {
                assert_eq!(text.parse(), Ok(target));
            }
        }
        assert_eq!("".parse(), Ok(TargetWorkers::Auto));
        assert_eq!("LoCaL".parse(), Ok(TargetWorkers::Local));
        for unknown in ["remote", " any", "0"] {
            let error = unknown.parse::<TargetWorkers>().unwrap_err().to_string();
            assert!(
                error.contains(unknown) && error.contains("auto, any, local or host"),
                "{error}"
            );
        }
    }

    #[test]
    fn deployment_modes_are_found_by_name() {
        for (mode, name) in DeploymentMode::NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(mode));
            assert_eq!(mode.to_string(), name);
        }
        for unknown in ["", "local"] {
            let error = unknown.parse::<DeploymentMode>().unwrap_err().to_string();
            assert!(error.contains("colocated, remote, hybrid"), "{error}");
        }
    }

    /// Tests the workers that each setting of target workers admits (C14.1).
    #[test]
    fn each_target_admits_its_workers() {
        let at = |host, process| Whereabouts {
            host: Some(host),
            process: Some(process),
        };
        let reader = at(1, 1);
        let (here, beside, away) = (at(1, 1), at(1, 2), at(2, 3));
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let none = tags(&[]);
        let (tagged, other) = (tags(&["gpu", "colocated"]), tags(&["COLOCATED2", "gpu"]));
        for (target, wanted) in [
            (TargetWorkers::Any, [true; 4]),
            (TargetWorkers::Local, [true, false, false, false]),
            (TargetWorkers::Host, [true, true, false, false]),
            (TargetWorkers::Auto, [true, true, true, false]),
        ] {
            let mut parameters = JobParameters::new(DatasetId::automatic(1000), Policy::Off);
            parameters.target_workers = target;
            let admits = |worker, tags: &[String]| parameters.admits(&reader, worker, tags);
            let found = [
                admits(&here, &tagged),
                admits(&beside, &none),
                admits(&away, &other),
                admits(&away, &tagged),
            ];
            assert_eq!(found, wanted, "{target}");
            let private = parameters.is_private(&tagged);
            assert_eq!(
                private,
                matches!(target, TargetWorkers::Local | TargetWorkers::Auto)
            );
            parameters.num_consumers = Some(2);
            assert!(parameters.admits(&reader, &away, &tagged));
        }
    }

    /// Tests the meaning of `auto` under static sharding (C14.4).
    #[test]
    fn auto_means_local_for_colocated_static_sharding() {
        for (policy, mode, wanted) in [
            (Policy::Data, DeploymentMode::Colocated, TargetWorkers::Local),
            (Policy::Data, DeploymentMode::Hybrid, TargetWorkers::Auto),
            (Policy::Data, DeploymentMode::Unspecified, TargetWorkers::Auto),
            (Policy::Off, DeploymentMode::Colocated, TargetWorkers::Auto),
        ] {
            let parameters = JobParameters::new(DatasetId::automatic(1000), policy).deployed(mode);
            assert_eq!(parameters.target_workers, wanted, "{policy} {mode}");
            assert!(parameters.without_local_worker().message.contains("process"));
        }
        let mut any = JobParameters::new(DatasetId::automatic(1000), Policy::Data);
        any.target_workers = TargetWorkers::Any;
        assert_eq!(any.clone().deployed(DeploymentMode::Colocated), any);
    }

    #[test]
    fn all_differences_are_listed_not_only_the_first() {
        let existing = JobParameters::new(DatasetId::automatic(1000), Policy::Off);
        let mut wanted = JobParameters::new(DatasetId::automatic(1001), Policy::Dynamic);
        wanted.num_consumers = Some(2);
        let found = existing.differences(&wanted).join("; ");
        for part in [
            "dataset is 1000, not 1001",
            "sharding policy is off, not dynamic",
            "num_consumers is none, not 2",
        ] {
            assert!(found.contains(part), "{found}");
        }
        assert!(existing.differences(&existing).is_empty());
    }
}
