//! A cluster of real etcd members on loopback, for tests that need one.
//!
//! Members end with the test, even if the test is killed: a shell ends each member when its standard input
//! closes.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time within which the members must elect a leader.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// The shell of a member: it prints the member's process id, and ends the member at the end of its input. It
/// then removes the folder of the cluster, because the test has ended without doing so.
const SHELL: &str =
    r#""$@" >"$LOG" 2>&1 & pid=$!; echo $pid; cat >/dev/null; kill -9 $pid; rm -rf "$FOLDER""#;

/// A member of the cluster.
#[derive(Debug)]
struct Member {
    name: String,
    client_port: u16,
    peer_port: u16,
    process: Option<(Child, u32)>,
}

/// The files (PEM) of a cluster that serves TLS, and that asks its clients for certificates.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// The certificate of all members and of `etcdctl`.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A running etcd cluster. Dropping the value kills its members and removes their data.
#[derive(Debug)]
pub struct EtcdCluster {
    folder: PathBuf,
    members: Vec<Member>,
    extra: Vec<String>,
    /// The arguments of `etcdctl` for TLS. Empty without TLS.
    tls: Vec<String>,
}

impl EtcdCluster {
    /// Starts a cluster of `size` members with further arguments. Returns `None`, with a printed note, where
    /// etcd is not installed.
    ///
    /// # Panics
    /// The members do not elect a leader in time.
    #[must_use]
    pub fn start(size: usize, extra: &[&str]) -> Option<EtcdCluster> {
        let extra = extra.iter().map(|text| (*text).to_owned()).collect();
        EtcdCluster::start_with(size, extra, Vec::new())
    }

    /// Starts a cluster that serves TLS. Returns `None` like [`start`](EtcdCluster::start).
    ///
    /// # Panics
    /// The members do not elect a leader in time.
    #[must_use]
    pub fn start_encrypted(size: usize, tls: &EtcdTls) -> Option<EtcdCluster> {
        let text = |path: &Path| path.display().to_string();
        let (ca, certificate, key) = (text(&tls.ca), text(&tls.certificate), text(&tls.key));
        let extra = vec![
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={ca}"),
            format!("--cert-file={certificate}"),
            format!("--key-file={key}"),
        ];
        let tls = vec![
            format!("--cacert={ca}"),
            format!("--cert={certificate}"),
            format!("--key={key}"),
        ];
        EtcdCluster::start_with(size, extra, tls)
    }

    fn start_with(size: usize, extra: Vec<String>, tls: Vec<String>) -> Option<EtcdCluster> {
        if !is_installed() {
            let note = "skipped: etcd is not installed (Debian: apt-get install etcd-server)\n";
            // Standard error of the test runner shows the note even if the test passes.
            std::io::stderr().write_all(note.as_bytes()).ok();
            return None;
        }
        let folder = folder_of_data().join(format!("millstream-etcd-{}", unique()));
        std::fs::create_dir_all(&folder).expect("a folder for etcd");
        let members = (0..size)
            .map(|index| Member {
                name: format!("m{index}"),
                client_port: free_port(),
                peer_port: free_port(),
                process: None,
            })
            .collect();
        let mut cluster = EtcdCluster {
            folder,
            members,
            extra,
            tls,
        };
        for index in 0..size {
            cluster.start_member(index);
        }
        cluster.await_health();
        Some(cluster)
    }

    /// Returns the addresses of all members, as in `host:port,host:port`.
    #[must_use]
    pub fn addresses(&self) -> String {
        let addresses = self
            .members
            .iter()
            .map(|member| format!("127.0.0.1:{}", member.client_port));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Returns the number of the member that leads the others.
    ///
    /// # Panics
    /// No member leads.
    #[must_use]
    pub fn leader(&self) -> usize {
        let leads = |member: &Member| {
            let status = self.ask_member(member, &["endpoint", "status", "--write-out=json"]);
            let id = number_after(&status, "\"member_id\":");
            id.is_some() && id == number_after(&status, "\"leader\":")
        };
        self.members.iter().position(leads).expect("a member leads")
    }

    /// Runs `etcdctl` with these arguments, and returns its output.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> String {
        ask_at(&self.addresses(), &self.tls, arguments)
    }

    fn ask_member(&self, member: &Member, arguments: &[&str]) -> String {
        if member.process.is_none() {
            return String::new();
        }
        ask_at(&format!("127.0.0.1:{}", member.client_port), &self.tls, arguments)
    }

    /// Kills a member.
    pub fn kill(&mut self, index: usize) {
        if let Some((mut shell, pid)) = self.members[index].process.take() {
            signal(pid, "KILL");
            shell.kill().ok();
            shell.wait().ok();
        }
    }

    /// Starts a killed member again, with its data.
    ///
    /// # Panics
    /// The shell does not start.
    pub fn start_member(&mut self, index: usize) {
        let peers = self
            .members
            .iter()
            .map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer_port))
            .collect::<Vec<_>>()
            .join(",");
        let member = &self.members[index];
        let scheme = if self.tls.is_empty() { "http" } else { "https" };
        let client = format!("{scheme}://127.0.0.1:{}", member.client_port);
        let peer = format!("http://127.0.0.1:{}", member.peer_port);
        let data = self.folder.join(&member.name);
        let mut command = Command::new("sh");
        command
            .args(["-c", SHELL, "etcd", "etcd", "--name", &member.name])
            .args(["--data-dir", &data.display().to_string()])
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &peers, "--initial-cluster-state", "new"])
            .args(&self.extra)
            .env("LOG", log_of(&self.folder, &member.name))
            .env("FOLDER", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = command.spawn().expect("a shell");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("a process id");
        let pid = line.trim().parse().expect("a process id");
        self.members[index].process = Some((shell, pid));
    }

    /// Stops a member without ending it.
    pub fn pause(&self, index: usize) {
        if let Some((_, pid)) = &self.members[index].process {
            signal(*pid, "STOP");
        }
    }

    /// Lets a paused member continue.
    pub fn resume(&self, index: usize) {
        if let Some((_, pid)) = &self.members[index].process {
            signal(*pid, "CONT");
        }
    }

    /// Waits until the members serve requests.
    ///
    /// # Panics
    /// The members do not serve in time; the message holds the log of the first one.
    pub fn await_health(&self) {
        let deadline = Instant::now() + START_DEADLINE;
        while !self.is_healthy() {
            let log = std::fs::read_to_string(log_of(&self.folder, &self.members[0].name));
            assert!(Instant::now() < deadline, "etcd does not serve: {log:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns whether the members accept a write.
    fn is_healthy(&self) -> bool {
        let member = self.members.iter().find(|member| member.process.is_some());
        let Some(member) = member else { return false };
        TcpStream::connect(("127.0.0.1", member.client_port)).is_ok()
            && self
                .ask_member(member, &["put", "millstream-test", "1"])
                .contains("OK")
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            self.kill(index);
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// The variable that names the folder for the data of etcd.
const FOLDER_VARIABLE: &str = "MILLSTREAM_ETCD_DATA";

/// Returns the folder that `MILLSTREAM_ETCD_DATA` names. Otherwise returns a folder in memory where the
/// system has one, because the disk of a busy machine delays etcd for seconds.
fn folder_of_data() -> PathBuf {
    if let Some(named) = std::env::var_os(FOLDER_VARIABLE) {
        return PathBuf::from(named);
    }
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

fn is_installed() -> bool {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let argument = if program == "etcd" { "--version" } else { "version" };
        command
            .arg(argument)
            .status()
            .is_ok_and(|status| status.success())
    };
    runs("etcd") && runs("etcdctl")
}

fn ask_at(endpoints: &str, tls: &[String], arguments: &[&str]) -> String {
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", endpoints, "--command-timeout=2s"])
        .args(tls)
        .args(arguments)
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let rest = text.split_once(mark)?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn log_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn signal(pid: u32, name: &str) {
    Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .ok();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Returns a text that no other cluster on this host has.
fn unique() -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Relaxed: only the distinct values matter.
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{}-{next}", std::process::id())
}
