//! The flags of an admin port, its binding, and its opening.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use millstream::admin::{AdminConfig, AdminListener, AdminPort, AdminToken, Subject};

use crate::console::note;

/// The admin port of a process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admin port")]
pub(crate) struct AdminFlags {
    /// Opens an admin port for HTTP at this address: metrics for Prometheus, probes, and the status as JSON.
    /// The port of a dispatcher also has a page that shows whether training waits for data, and why. Nothing
    /// can be changed there. The last one of several addresses counts.
    #[arg(long, value_name = "IP:PORT", overrides_with = "admin")]
    pub(crate) admin: Option<SocketAddr>,
    /// The file with the token that requests to the admin port must present. An address beyond loopback needs
    /// it. The connection is not encrypted.
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// The names under which browsers reach the admin port, besides IP addresses and localhost.
    #[arg(long, value_name = "HOST,...", requires = "admin", value_delimiter = ',')]
    pub(crate) admin_host: Vec<String>,
}

impl AdminFlags {
    /// Returns the flags as arguments of another command.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if let Some(address) = self.admin {
            arguments.extend(["--admin".into(), address.to_string().into()]);
        }
        if let Some(path) = &self.admin_token_file {
            arguments.extend(["--admin-token-file".into(), path.into()]);
        }
        for host in &self.admin_host {
            arguments.extend(["--admin-host".into(), host.into()]);
        }
        arguments
    }

    /// Binds the port if a flag names its address. Commands bind it before they start a server, so that no
    /// server registers whose port cannot be opened.
    pub(crate) fn bind(&self) -> Result<Option<AdminListener>, String> {
        let Some(bind) = self.admin else {
            return Ok(None);
        };
        let token = self.admin_token_file.as_ref().map(|path| {
            AdminToken::from_file(path)
                .map_err(|error| format!("--admin-token-file {}: {error}", path.display()))
        });
        let config = AdminConfig {
            bind,
            token: token.transpose()?,
            hosts: self.admin_host.clone(),
        };
        AdminListener::bind(config)
            .map(Some)
            .map_err(|error| error.to_string())
    }
}

/// Shows `subject` at the bound port, if there is one, and prints the address.
pub(crate) fn serve<S: Subject>(
    bound: Option<AdminListener>,
    subject: impl FnOnce() -> S,
) -> Result<Option<AdminPort>, String> {
    let Some(bound) = bound else {
        return Ok(None);
    };
    let port = bound.serve(subject()).map_err(|error| error.to_string())?;
    note(&format!("admin port at http://{}/", port.local_addr()));
    Ok(Some(port))
}
