//! Tests of admission: which peers a server admits, and which reasons refused peers receive.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::super::{BindError, RefusalReason};
use super::*;
use crate::identity::{PublicKeys, Revocations};
use crate::tls::{Identity, Leaf, peer_role};

#[tokio::test]
async fn both_sides_learn_roles_and_can_talk() {
    let mut server = Server::worker();
    let client = client(cluster().credentials(Role::Read));
    let connection = connect(&client, &server).await.unwrap();
    let accepted = server.accept().await;
    assert_eq!(accepted.role, Role::Read);
    assert_eq!(peer_role(&accepted.connection), Some(Role::Read));
    assert_eq!(peer_role(&connection), Some(Role::Worker));
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.finish().unwrap();
    let mut received = within(accepted.connection.accept_uni()).await.unwrap();
    assert_eq!(within(received.read_to_end(16)).await.unwrap(), b"hello");
    client.close("done");
    assert!(client.wait_idle(WATCHDOG).await);
    assert!(matches!(
        within(accepted.connection.closed()).await,
        quinn::ConnectionError::ApplicationClosed(_)
    ));
}

#[tokio::test]
async fn another_clusters_key_leaves_the_server_serving() {
    let mut server = Server::worker();
    let stranger = client(ClusterKey::from_bytes([1; 32]).credentials(Role::Read));
    let error = connect(&stranger, &server).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    let address = server.endpoint.local_addr().to_string();
    assert!(error.to_string().contains(&address), "{error}");
    let friend = client(cluster().credentials(Role::Read));
    connect(&friend, &server).await.unwrap();
    server.accept().await;
}

#[tokio::test]
async fn a_server_refuses_foreign_clusters_clients() {
    let mut server = Server::worker();
    let foreign_seed = [9; 32];
    let leaf = Leaf::issue(Role::Read, &[Role::Read.dns_name()], &foreign_seed).unwrap();
    let intruder = with_leaf(Role::Read, leaf);
    let error = connect(&intruder, &server).await.unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::Refused {
                reason: RefusalReason::UnknownKey { .. },
                ..
            }
        ),
        "{error:?}"
    );
    server
        .counted(|counts| counts.failed == 1 && counts.accepted == 0)
        .await;
}

#[tokio::test]
async fn an_inadmissible_role_is_told_so() {
    let mut server = Server::worker();
    let worker = client(cluster().credentials(Role::Worker));
    let error = connect(&worker, &server).await.unwrap_err();
    let reason = RefusalReason::RoleNotAdmitted { role: Role::Worker };
    assert!(
        matches!(&error, ConnectError::Refused { reason: told, .. } if *told == reason),
        "{error:?}"
    );
    server
        .counted(|counts| counts.failed == 1 && counts.accepted == 0)
        .await;
}

#[tokio::test]
async fn a_server_of_another_role_is_not_used() {
    let server = Server::worker();
    let reader = client(cluster().credentials(Role::Read));
    let address = server.endpoint.local_addr();
    let error = reader
        .connect(address, Role::Dispatcher, ALPN, WATCHDOG)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::WrongRole {
                expected: Role::Dispatcher,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_read_key_proves_no_other_role() {
    let config = EndpointConfig::default();
    let mut server = Server::start(
        cluster().credentials(Role::Dispatcher),
        &[Role::Worker, Role::Read],
        config,
    );
    let read_seed = *cluster().role_key(Role::Read).subkey();
    let claims: [(Role, &[&str]); 4] = [
        (Role::Read, &["worker.millstream"]),
        (Role::Worker, &["worker.millstream"]),
        (Role::Read, &["read.millstream", "worker.millstream"]),
        (Role::Read, &["example.org"]),
    ];
    for (issuer, names) in claims {
        let forger = with_leaf(Role::Read, Leaf::issue(issuer, names, &read_seed).unwrap());
        let address = server.endpoint.local_addr();
        let error = forger
            .connect(address, Role::Dispatcher, ALPN, WATCHDOG)
            .await
            .unwrap_err();
        assert!(
            matches!(error, ConnectError::Refused { .. }),
            "{issuer} {names:?}: {error:?}"
        );
    }
    server
        .counted(|counts| counts.failed == 4 && counts.accepted == 0)
        .await;
    let honest = client(cluster().credentials(Role::Read));
    honest
        .connect(server.endpoint.local_addr(), Role::Dispatcher, ALPN, WATCHDOG)
        .await
        .unwrap();
    assert_eq!(server.accept().await.role, Role::Read);
}

#[tokio::test]
async fn a_worker_key_cannot_pose_as_the_dispatcher() {
    let worker_seed = *cluster().role_key(Role::Worker).subkey();
    let names = ["worker.millstream", "dispatcher.millstream"];
    let leaf = Leaf::issue(Role::Worker, &names, &worker_seed).unwrap();
    let identity = Identity::with_leaf(cluster().credentials(Role::Worker), leaf);
    let impostor =
        Endpoint::server_with(identity, &[ALPN], &[Role::Read], EndpointConfig::default()).unwrap();
    let mut acceptor = impostor.acceptor().unwrap();
    let accepting = tokio::spawn(async move { acceptor.accept().await });
    let reader = client(cluster().credentials(Role::Read));
    for expected in [Role::Dispatcher, Role::Worker] {
        let error = reader
            .connect(impostor.local_addr(), expected, ALPN, WATCHDOG)
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectError::WrongRole { .. }), "{error:?}");
    }
    accepting.abort();
}

#[tokio::test]
async fn an_unknown_protocol_version_is_named() {
    let server = Server::worker();
    let reader = client(cluster().credentials(Role::Read));
    let address = server.endpoint.local_addr();
    let error = reader
        .connect(address, Role::Worker, "millstream-test/9", WATCHDOG)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ConnectError::Version { alpn, .. } if alpn == "millstream-test/9"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_silent_peer_is_given_up_in_time() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let reader = client(cluster().credentials(Role::Read));
    let deadline = Duration::from_millis(300);
    let started = std::time::Instant::now();
    let address = silent.local_addr().unwrap();
    let error = within(reader.connect(address, Role::Worker, ALPN, deadline))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ConnectError::TimedOut { deadline_ms: 300, .. }),
        "{error:?}"
    );
    assert!(started.elapsed() >= deadline);
}

#[tokio::test]
async fn noise_on_the_port_disturbs_nobody() {
    let mut server = Server::worker();
    let noise = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for size_bytes in [0, 1, 20, 1200, 65_000] {
        for fill in [0x00, 0x40, 0xc3, 0xff] {
            noise
                .send_to(&vec![fill; size_bytes], server.endpoint.local_addr())
                .unwrap();
        }
    }
    let reader = client(cluster().credentials(Role::Read));
    connect(&reader, &server).await.unwrap();
    server.accept().await;
}

#[tokio::test]
async fn sites_may_bring_their_own_authority() {
    let site = Site::new();
    let mut server = Server::start(
        site.credentials("worker"),
        &[Role::Read],
        EndpointConfig::default(),
    );
    let reader = client(site.credentials("read"));
    let connection = connect(&reader, &server).await.unwrap();
    assert_eq!(peer_role(&connection), Some(Role::Worker));
    assert_eq!(server.accept().await.role, Role::Read);
    let submitter = client(site.credentials("submit"));
    let error = connect(&submitter, &server).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    let stranger = client(Site::new().credentials("read"));
    let error = connect(&stranger, &server).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
}

#[test]
fn a_site_certificate_must_name_one_role() {
    let site = Site::new();
    for names in [
        vec!["host.example.org"],
        vec!["read.millstream", "worker.millstream"],
    ] {
        let (certificate, key) = site.issue(&names);
        assert!(Credentials::from_pem(&certificate, &key, &site.authority).is_err());
    }
    assert!(Credentials::from_pem("", "", "").is_err());
}

#[tokio::test]
async fn bind_errors_name_the_address_and_the_cure() {
    let server = Server::worker();
    let bind = |address: SocketAddr| {
        let config = EndpointConfig {
            bind: Some(address),
            ..EndpointConfig::default()
        };
        Endpoint::bind_server(
            cluster().credentials(Role::Worker),
            &[ALPN],
            &[Role::Read],
            config,
        )
        .unwrap_err()
    };
    let taken = bind(server.endpoint.local_addr());
    assert!(matches!(taken, BindError::PortInUse { address } if address == server.endpoint.local_addr()));
    assert!(matches!(
        bind("192.0.2.1:0".parse().unwrap()),
        BindError::NotOurs { .. }
    ));
}

#[tokio::test]
async fn this_machines_own_key_serves_loopback_only() {
    let home = tempfile::tempdir().unwrap();
    let source = crate::identity::KeySource::own_file(Some(home.path().as_os_str()), None).unwrap();
    let loaded = source.load().unwrap();
    let bind = |ip: Ipv4Addr| {
        let config = EndpointConfig {
            bind: Some((ip, 0).into()),
            ..EndpointConfig::default()
        };
        let credentials = loaded.credentials(Role::Worker).unwrap();
        Endpoint::bind_server(credentials, &[ALPN], &[Role::Read], config)
    };
    assert!(matches!(bind(Ipv4Addr::UNSPECIFIED), Err(BindError::Refused(_))));
    assert!(bind(Ipv4Addr::LOCALHOST).is_ok());
}

/// Makes an endpoint that trusts like `role`, but presents another certificate.
fn with_leaf(role: Role, leaf: Leaf) -> Endpoint {
    let identity = Identity::with_leaf(cluster().credentials(role), leaf);
    Endpoint::client_with(identity, EndpointConfig::default()).unwrap()
}

/// The certificate authority of a site.
struct Site {
    authority: String,
    params: CertificateParams,
    key: KeyPair,
}

impl Site {
    fn new() -> Site {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        Site {
            authority,
            params,
            key,
        }
    }

    fn issue(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let issuer = Issuer::from_params(&self.params, &self.key);
        (
            params.signed_by(&key, &issuer).unwrap().pem(),
            key.serialize_pem(),
        )
    }

    fn credentials(&self, role: &str) -> Credentials {
        let (certificate, key) = self.issue(&["host.example.org", &format!("{role}.millstream")]);
        Credentials::from_pem(&certificate, &key, &self.authority).unwrap()
    }
}

/// Starts a server that refuses the peers on a file's list.
fn refusing(file: &std::path::Path) -> Server {
    let revocations = Arc::new(Revocations::open(file).unwrap());
    let credentials = cluster().credentials(Role::Worker).refusing(revocations);
    Server::start(
        credentials,
        &[Role::Read, Role::Submit],
        EndpointConfig::default(),
    )
}

#[tokio::test]
async fn a_revoked_roles_connections_close() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("revoked");
    std::fs::write(&file, "").unwrap();
    let mut server = refusing(&file);
    let [reader, submitter] = [Role::Read, Role::Submit].map(|role| client(cluster().credentials(role)));
    let revoked = connect(&reader, &server).await.unwrap();
    let kept = connect(&submitter, &server).await.unwrap();
    let _accepted = [server.accept().await, server.accept().await];
    let keys = PublicKeys::from(&cluster()).to_text();
    std::fs::write(&file, format!("read {keys}\n")).unwrap();
    let closed = tokio::time::timeout(WATCHDOG, revoked.closed()).await.unwrap();
    assert!(closed.to_string().contains("revoked"), "{closed}");
    let error = connect(&reader, &server).await.unwrap_err();
    assert!(error.to_string().contains("revoked"), "{error}");
    assert_eq!(kept.close_reason(), None);
    connect(&submitter, &server).await.unwrap();
}

#[tokio::test]
async fn a_reader_refuses_a_revoked_worker() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("revoked");
    std::fs::write(
        &file,
        format!("worker {}", PublicKeys::from(&cluster()).to_text()),
    )
    .unwrap();
    let server = Server::worker();
    let revocations = Arc::new(Revocations::open(&file).unwrap());
    let reader = client(cluster().credentials(Role::Read).refusing(revocations));
    let error = connect(&reader, &server).await.unwrap_err();
    assert!(matches!(error, ConnectError::Revoked { .. }), "{error:?}");
}
