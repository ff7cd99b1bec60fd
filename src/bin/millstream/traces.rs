//! The flags of traces, and the start of their export.

use std::ffi::OsString;

use clap::Args;
use millstream::trace::{OtlpConfig, SampleRatio, Tracer};

/// The export of traces.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceFlags {
    /// Sends traces of sampled splits to the OpenTelemetry collector at this URL, with OTLP over HTTP. A
    /// collector on this machine has the URL http://127.0.0.1:4318. The path /v1/traces is added if the URL
    /// has none. The variable OTEL_EXPORTER_OTLP_HEADERS sets headers, for a token.
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// The fraction of the splits that are traced. Use one ratio in all processes: they then trace the same
    /// splits.
    #[arg(long, value_name = "RATIO", default_value_t)]
    pub(crate) trace_ratio: SampleRatio,
}

impl TraceFlags {
    /// Returns the flags as arguments of another command.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let Some(url) = &self.traces else {
            return Vec::new();
        };
        let ratio = self.trace_ratio.to_string();
        vec![
            "--traces".into(),
            url.into(),
            "--trace-ratio".into(),
            ratio.into(),
        ]
    }

    /// Starts the export if a flag names its destination. `kind` is the kind of this process, and `name` its
    /// address or another name of its own.
    pub(crate) fn start(&self, kind: &str, name: &str) -> Result<Tracer, String> {
        let Some(url) = &self.traces else {
            return Ok(Tracer::default());
        };
        let config = OtlpConfig::named(url, self.trace_ratio, kind, name);
        config.start().map_err(|error| format!("--traces: {error}"))
    }
}
