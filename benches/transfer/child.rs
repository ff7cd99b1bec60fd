//! The producing process of a measurement. The process prints the address that it listens at, and sends until
//! its reader is gone.
//!
//! The process ends when its standard input closes, so it never outlives its parent.

use std::io::{Read, Write};
use std::net::TcpListener;

use millstream_link::{EndpointConfig, KeySource, Lane, Role};

use crate::args::{Child, ChildRole};
use crate::same_host;
use crate::yardstick::{raw_quic, raw_tcp};

/// Runs the role that the flags name.
pub(crate) fn run(child: &Child) -> Result<(), String> {
    end_with_input()?;
    let element_bytes = child.load.element_bytes.first().copied().unwrap_or(1 << 20);
    let meet = || child.meet.as_deref().ok_or("this role needs --meet");
    match child.role {
        ChildRole::RawTcp => {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
            announce(
                &listener
                    .local_addr()
                    .map_err(|error| error.to_string())?
                    .to_string(),
            )?;
            raw_tcp::send(&listener, element_bytes).map_err(|error| error.to_string())
        }
        ChildRole::RawQuic => {
            let lane = Lane::start("raw-quic").map_err(|error| error.to_string())?;
            let key = KeySource::from_setting(&child.key)
                .load()
                .map_err(|error| error.to_string())?;
            let credentials = key.credentials(Role::Worker).map_err(|error| error.to_string())?;
            let config = EndpointConfig {
                mtu: child.load.mtu,
                ..EndpointConfig::default()
            };
            let sent = lane.spawn(async move {
                let endpoint = raw_quic::bind(credentials, config)?;
                announce(&endpoint.local_addr().to_string())?;
                raw_quic::send(endpoint, element_bytes).await
            });
            let path = sent.wait().map_err(|error| error.to_string())??;
            announce(&path.mtu.to_string())
        }
        ChildRole::UnixSocket => same_host::send_unix_socket(meet()?.as_ref(), element_bytes),
        ChildRole::Ring | ChildRole::Futex => {
            same_host::send_shared(child.role, meet()?, element_bytes, child.load.rate)
        }
        ChildRole::Iceoryx2 => same_host::send_iceoryx2(meet()?, element_bytes, child.load.rate),
        ChildRole::Dispatcher | ChildRole::Worker => crate::service::run_child(child),
    }
}

/// Ends the process when its standard input closes.
fn end_with_input() -> Result<(), String> {
    let watch = || {
        let mut nothing = [0; 1];
        while matches!(std::io::stdin().read(&mut nothing), Ok(1)) {}
        std::process::exit(0);
    };
    let watching = std::thread::Builder::new().name("input".to_owned()).spawn(watch);
    watching.map(drop).map_err(|error| error.to_string())
}

/// Prints a line for the parent process.
pub(crate) fn announce(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}
