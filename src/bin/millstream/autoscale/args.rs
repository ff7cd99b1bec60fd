//! The flags of `millstream autoscale`, and the flags of the dispatcher's scaling policy.

use std::time::Duration;

use clap::Args;
use millstream::control::ScalingConfig;

use crate::args::{IdentityFlags, parse_seconds};
use crate::help;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::AUTOSCALE)]
pub(crate) struct AutoscaleArgs {
    /// The dispatcher of the service, or all dispatchers of the service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// Minimum number of workers. With 0, the last worker ends when nobody reads.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) min: u64,
    /// Maximum number of workers.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) max: u64,
    #[command(flatten)]
    pub(crate) engine: EngineFlags,
    /// The namespace of the Deployment of --kubernetes. The default is the namespace of kubectl's context.
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Seconds between two requests for the state of the service.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) interval_s: Duration,
    /// Seconds after which a run of CMD or kubectl is ended. The run then counts as failed.
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout_s: Duration,
}

/// The way in which workers start and end.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct EngineFlags {
    /// Runs this command of the shell (sh -c) for each new number of workers. The variables MILLSTREAM_WANTED
    /// and MILLSTREAM_CURRENT contain the wanted and the present number.
    #[arg(long, value_name = "CMD")]
    pub(crate) exec: Option<String>,
    /// Sets the replicas of this Deployment with kubectl.
    #[arg(long, value_name = "DEPLOYMENT")]
    pub(crate) kubernetes: Option<String>,
    /// Only prints the decisions.
    #[arg(long)]
    pub(crate) print: bool,
}

/// The waiting times of the policy that decides how many workers the service wants.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Wanted workers")]
pub(crate) struct ScalingFlags {
    /// The time for which workers must be idle before the service wants fewer workers.
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) scale_down_after_s: Duration,
    /// The time without a reader after which the service wants no worker.
    #[arg(long, default_value = "300", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) scale_to_zero_after_s: Duration,
}

impl ScalingFlags {
    /// Returns the settings of the policy.
    pub(crate) fn config(&self) -> ScalingConfig {
        ScalingConfig {
            down_after: self.scale_down_after_s,
            idle_after: self.scale_to_zero_after_s,
            ..ScalingConfig::default()
        }
    }
}
