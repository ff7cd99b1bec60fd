//! Measurements of the yardsticks on one host: starts the producing process if there is one, and builds the
//! record.

use std::os::unix::net::UnixListener;
use std::path::Path;

use millstream_link::ClusterKey;

use crate::args::{ChildRole, Load, Transport};
use crate::child::announce;
use crate::local::{Producer, with_bytes};
use crate::report::Record;
use crate::yardstick::{Meter, touch_loop, unix_socket};

/// The name of the socket within its folder.
const SOCKET: &str = "socket";

#[cfg(not(all(target_os = "linux", feature = "iceoryx2")))]
const WITHOUT_ICEORYX2: &str =
    "this program was built without iceoryx2; build it with --features iceoryx2, on Linux";

/// Measures writing and reading every byte in this process.
pub(crate) fn measure_touch_loop(record: Record, load: &Load, element_bytes: u64) -> Result<Record, String> {
    let meter = Meter::new(load.seconds, Vec::new());
    let tallied = touch_loop::measure(load, element_bytes, meter)?;
    Ok(tallied.into_record(record))
}

/// Measures a copy through a Unix socket.
pub(crate) fn measure_unix_socket(record: Record, load: &Load, element_bytes: u64) -> Result<Record, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join(SOCKET);
    let mut producer = start(
        Transport::UnixSocket,
        load,
        element_bytes,
        &path.display().to_string(),
    )?;
    producer.read_line()?;
    let meter = Meter::new(load.seconds, vec![producer.pid()]);
    let measured = unix_socket::receive(&path, element_bytes, meter).map_err(|error| error.to_string())?;
    let record = Record {
        bytes_copied_per_element: 2.0 * element_bytes as f64,
        ..record
    };
    Ok(with_bytes(record, measured))
}

/// Measures a bare ring of descriptors, or bare wake-ups.
#[cfg(target_os = "linux")]
pub(crate) fn measure_shared(
    record: Record,
    load: &Load,
    element_bytes: u64,
    transport: Transport,
) -> Result<Record, String> {
    use crate::yardstick::shared::area::Area;
    use crate::yardstick::shared::{futex, ring};

    let plan = ring::Plan::new(element_bytes);
    let is_ring = transport == Transport::Ring;
    let (area, fd) = Area::create(if is_ring { plan.words() } else { futex::WORDS })?;
    let producer = start(transport, load, element_bytes, &Area::path(&fd))?;
    let tally = tally(load, element_bytes, &producer)?;
    let tallied = if is_ring {
        ring::receive(&area, plan, tally)
    } else {
        futex::receive(&area, tally)
    };
    Ok(tallied?.into_record(record))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn measure_shared(_: Record, _: &Load, _: u64, _: Transport) -> Result<Record, String> {
    Err("shared memory is supported on Linux only".to_owned())
}

/// Measures loaned slots of iceoryx2, if the program was built with iceoryx2.
#[cfg(all(target_os = "linux", feature = "iceoryx2"))]
pub(crate) fn measure_iceoryx2(record: Record, load: &Load, element_bytes: u64) -> Result<Record, String> {
    use crate::yardstick::iceoryx2::Exchange;
    use crate::yardstick::shared::area::Area;

    // The memory contains the bell. The exchange is named after the memory, and no other process has that
    // name.
    let (area, fd) = Area::create(1)?;
    let name = Area::path(&fd);
    let tallied = Exchange::open(&name)?.receive(area.bell(0), || {
        let mut producer = start(Transport::Iceoryx2, load, element_bytes, &name)?;
        producer.read_line()?;
        let tally = tally(load, element_bytes, &producer)?;
        Ok((producer, tally))
    })?;
    Ok(tallied.into_record(record))
}

#[cfg(not(all(target_os = "linux", feature = "iceoryx2")))]
pub(crate) fn measure_iceoryx2(_: Record, _: &Load, _: u64) -> Result<Record, String> {
    Err(WITHOUT_ICEORYX2.to_owned())
}

fn start(transport: Transport, load: &Load, element_bytes: u64, meet: &str) -> Result<Producer, String> {
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let meet = format!("--meet={meet}");
    Producer::start(transport.name(), &key, load, element_bytes, &[meet])
}

#[cfg(target_os = "linux")]
fn tally(load: &Load, element_bytes: u64, producer: &Producer) -> Result<crate::tally::Tally, String> {
    crate::tally::Tally::new(
        load,
        element_bytes,
        Meter::new(load.seconds, vec![producer.pid()]),
    )
}

/// Sends through a Unix socket at this path.
pub(crate) fn send_unix_socket(path: &Path, element_bytes: u64) -> Result<(), String> {
    let listener = UnixListener::bind(path).map_err(|error| format!("{}: {error}", path.display()))?;
    announce("listening")?;
    unix_socket::send(&listener, element_bytes).map_err(|error| error.to_string())
}

/// Sends descriptors or wake-ups through the parent's memory.
#[cfg(target_os = "linux")]
pub(crate) fn send_shared(
    role: ChildRole,
    meet: &str,
    element_bytes: u64,
    rate: Option<u64>,
) -> Result<(), String> {
    use crate::yardstick::shared::area::Area;
    use crate::yardstick::shared::{futex, ring};

    if role == ChildRole::Ring {
        let plan = ring::Plan::new(element_bytes);
        ring::send(&Area::open(meet, plan.words())?, plan, rate)
    } else {
        futex::send(&Area::open(meet, futex::WORDS)?, rate)
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn send_shared(_: ChildRole, _: &str, _: u64, _: Option<u64>) -> Result<(), String> {
    Err("shared memory is supported on Linux only".to_owned())
}

/// Publishes elements through iceoryx2.
#[cfg(all(target_os = "linux", feature = "iceoryx2"))]
pub(crate) fn send_iceoryx2(name: &str, element_bytes: u64, rate: Option<u64>) -> Result<(), String> {
    use crate::yardstick::iceoryx2::Exchange;
    use crate::yardstick::shared::area::Area;

    let area = Area::open(name, 1)?;
    Exchange::open(name)?.send(element_bytes, rate, area.bell(0), || announce("publishing"))
}

#[cfg(not(all(target_os = "linux", feature = "iceoryx2")))]
pub(crate) fn send_iceoryx2(_: &str, _: u64, _: Option<u64>) -> Result<(), String> {
    Err(WITHOUT_ICEORYX2.to_owned())
}
