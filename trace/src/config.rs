//! The settings of the export of spans over OTLP, and the checks of them.

use crate::sample::SampleRatio;
use crate::tracer::Tracer;

/// The path of traces below the endpoint of a collector.
#[cfg(any(test, feature = "otlp"))]
const PATH: &str = "/v1/traces";

/// The settings of the export.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpConfig {
    /// The URL of the collector, such as `http://127.0.0.1:4318`. The path `/v1/traces` is added if the URL
    /// has no path. A URL with a path is used as it is.
    pub endpoint: String,
    /// The fraction of the splits that are traced.
    pub ratio: SampleRatio,
    /// The kind of the process, such as `millstream-worker`, unless the variable `OTEL_SERVICE_NAME` names
    /// the service.
    pub service: String,
    /// The address or another name of the process. [`OtlpConfig::named`] adds the host and the process id.
    pub instance: String,
}

/// The error of an export that cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtlpError {
    /// The endpoint is not a URL of a collector.
    #[error(
        "the endpoint of the traces {endpoint:?} cannot be used: {reason}; expected a URL such as http://127.0.0.1:4318"
    )]
    Endpoint {
        /// The endpoint, without a user and a password.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// The exporter of OpenTelemetry refuses its settings, some of which are environment variables.
    #[error("traces cannot be exported: {0}; check the variables that begin with OTEL_EXPORTER_OTLP_")]
    Settings(String),
    /// The system refuses a thread, or has no certificates for a URL with `https`.
    #[error(
        "traces cannot be sent to {url}: {reason}; install the CA certificates of the system, or name their file in SSL_CERT_FILE"
    )]
    Client {
        /// The URL to which spans would be sent.
        url: String,
        /// The reason.
        reason: String,
    },
    /// This program was built without the export.
    #[error("this build cannot export traces: build it with the feature otlp, or with the feature full")]
    NotBuilt,
}

impl OtlpConfig {
    /// Returns the settings of a process of this kind, such as `worker`, with this address or another name.
    pub fn named(endpoint: impl Into<String>, ratio: SampleRatio, kind: &str, name: &str) -> OtlpConfig {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        OtlpConfig {
            endpoint: endpoint.into(),
            ratio,
            service: format!("millstream-{kind}"),
            instance: format!("{}/{name}/{}", host.trim(), std::process::id()),
        }
    }

    /// Starts the export. [`Tracer::end`] sends the remaining spans before a process ends. Also reads the
    /// variables `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT` and `OTEL_RESOURCE_ATTRIBUTES`,
    /// as other programs do.
    ///
    /// # Errors
    /// [`OtlpError`]: the endpoint or a variable cannot be used, or the build lacks the export. A collector
    /// that does not answer is not an error, because it may start later.
    pub fn start(&self) -> Result<Tracer, OtlpError> {
        #[cfg(feature = "otlp")]
        {
            let sink = crate::otlp::OtlpSink::start(self, traces_url(&self.endpoint)?)?;
            Ok(Tracer::new(self.ratio, Box::new(sink)))
        }
        #[cfg(not(feature = "otlp"))]
        Err(OtlpError::NotBuilt)
    }
}

/// Returns the URL to which spans are sent.
#[cfg(any(test, feature = "otlp"))]
fn traces_url(endpoint: &str) -> Result<String, OtlpError> {
    let refused = |reason: &str| OtlpError::Endpoint {
        endpoint: hidden(endpoint).to_owned(),
        reason: reason.to_owned(),
    };
    if endpoint.contains(['@', '?', '#']) {
        return Err(refused(
            "it holds a password or a query; set the variable OTEL_EXPORTER_OTLP_HEADERS instead",
        ));
    }
    let (scheme, rest) = endpoint
        .split_once("://")
        .filter(|(scheme, _)| ["http", "https"].contains(scheme))
        .ok_or_else(|| refused("it does not begin with http:// or https://"))?;
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.is_empty() || authority.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(refused("it names no host"));
    }
    let path = path.trim_end_matches('/');
    let path = if path.is_empty() { PATH } else { path };
    Ok(format!("{scheme}://{authority}{path}"))
}

/// Returns the part of an endpoint between a password and a query.
#[cfg(any(test, feature = "otlp"))]
fn hidden(endpoint: &str) -> &str {
    let shown = endpoint.rsplit_once('@').map_or(endpoint, |(_, rest)| rest);
    shown.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_lead_to_the_path_of_traces() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://tempo.example/", "https://tempo.example/v1/traces"),
            (
                "http://[::1]:4318/otlp/v1/traces",
                "http://[::1]:4318/otlp/v1/traces",
            ),
        ] {
            assert_eq!(traces_url(endpoint), Ok(url.to_owned()));
        }
    }

    #[test]
    fn unusable_endpoints_are_refused_without_secrets() {
        for endpoint in [
            "127.0.0.1:4318",
            "",
            "grpc://host:4317",
            "http://",
            "http:///v1",
            "http://a b",
        ] {
            let error = traces_url(endpoint).expect_err(endpoint).to_string();
            assert!(error.contains("expected a URL such as"), "{error}");
        }
        for endpoint in [
            "http://user:secret@host:4318",
            "http://user:sec/ret-secret@host",
            "user:secret@host",
            "https://host/v1/traces?api-key=secret",
            "https://host#secret",
        ] {
            let error = traces_url(endpoint).expect_err(endpoint).to_string();
            assert!(!error.contains("secret") && error.contains("host"), "{error}");
        }
    }
}
