//! Tests of etcd with users, with TLS, and without space.

use std::path::{Path, PathBuf};

use millstream_testkit::{EtcdCluster, EtcdTls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::conformance::Etcd;
use super::records::{by_key, meta, session_of};
use crate::dispatcher::Change;
use crate::store::{EtcdCandidate, EtcdConfig, EtcdError, EtcdUser, StoreError};

fn config_of(cluster: &EtcdCluster) -> EtcdConfig {
    format!("etcd://{}/tests/one", cluster.addresses())
        .parse()
        .unwrap()
}

/// Tests that a leader continues after an administrator has changed users or roles.
#[test]
fn changed_roles_depose_no_leader() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of the test").unwrap();
    // These tokens name the revision of the users, so that etcd refuses them after a change.
    let tokens = format!("jwt,priv-key={},sign-method=HS256,ttl=10m", secret.display());
    let Some(cluster) = EtcdCluster::start(1, &["--auth-token", &tokens, "--bcrypt-cost=4"]) else {
        return;
    };
    let as_root = |arguments: &[&str]| cluster.ask(&[&["--user=root:top"], arguments].concat());
    for arguments in [
        &["user", "add", "root:top"] as &[&str],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "mill"],
        &[
            "role",
            "grant-permission",
            "mill",
            "readwrite",
            "--prefix=true",
            "tests/one/",
        ],
        &["user", "add", "mill:low"],
        &["user", "grant-role", "mill", "mill"],
        &["auth", "enable"],
    ] {
        let said = cluster.ask(arguments);
        assert!(!said.is_empty(), "{arguments:?}");
    }
    let user = |password: &str| EtcdUser {
        name: "mill".to_owned(),
        password: password.to_owned(),
    };
    let mut config = config_of(&cluster);
    config.user = Some(user("low"));
    let mut store = Etcd::lead(&config);
    assert_eq!(store.load().unwrap(), []);
    for round in 0..3 {
        let said = as_root(&["role", "add", &format!("other{round}")]);
        assert!(said.contains("created"), "{said}");
        store.commit(&[Change::Put(meta(round))]).unwrap();
    }
    assert_eq!(EtcdCandidate::read_all(&config).unwrap(), [meta(2)]);
    config.user = Some(user("wrong"));
    let refused = EtcdCandidate::connect(config.clone(), vec!["key".to_owned()]).unwrap_err();
    assert!(matches!(refused, EtcdError::Denied { .. }), "{refused}");
    config.user = None;
    let refused = EtcdCandidate::connect(config.clone(), vec!["key".to_owned()]).unwrap_err();
    assert!(matches!(refused, EtcdError::Denied { .. }), "{refused}");
    // The role of this user permits other keys only.
    config.user = Some(user("low"));
    "other".clone_into(&mut config.prefix);
    let refused = EtcdCandidate::connect(config, vec!["key".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("begin with other/"), "{refused}");
}

/// Tests that commits to an etcd without space are refused as such, and are stored later.
#[test]
fn full_members_store_commits_later() {
    let Some(cluster) = EtcdCluster::start(1, &["--quota-backend-bytes=16777216"]) else {
        return;
    };
    let config = config_of(&cluster);
    let mut store = Etcd::lead(&config);
    store.load().unwrap();
    let changes = |round: u64| [Change::Put(meta(round)), Change::Put(session_of(1, 2 << 20))];
    let mut stored = 0;
    let error = loop {
        match store.commit(&changes(stored + 1)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "etcd keeps more than its quota");
    };
    assert!(matches!(&error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("--quota-backend-bytes"), "{error}");
    let records = EtcdCandidate::read_all(&config).unwrap();
    assert!(records.contains(&meta(stored)), "{stored}");
    let status = cluster.ask(&["endpoint", "status", "--write-out=fields"]);
    let revision = status
        .lines()
        .find_map(|line| line.strip_prefix("\"Revision\" : "));
    let compacted = cluster.ask(&["compact", "--physical", revision.unwrap()]);
    assert!(compacted.contains("compacted"), "{compacted}");
    for arguments in [&["defrag"], &["alarm", "disarm"] as &[&str]] {
        assert!(!cluster.ask(arguments).is_empty(), "{arguments:?}");
    }
    // Each commit has several parts, and the refused one left some behind.
    if let Err(error) = store.commit(&changes(stored + 1)) {
        // A busy machine delays etcd for longer than a lease.
        assert!(matches!(error, StoreError::Lost(_)), "{error}");
        store = Etcd::lead(&config);
        store.load().unwrap();
        store.commit(&changes(stored + 1)).unwrap();
    }
    let expected = [meta(stored + 1), session_of(1, 2 << 20)];
    assert_eq!(
        by_key(EtcdCandidate::read_all(&config).unwrap()),
        by_key(expected.to_vec())
    );
}

/// Writes the certificate of an authority, and a certificate with its key for this host.
fn certificates(folder: &Path) -> EtcdTls {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    EtcdTls {
        ca: write("ca.pem", authority.pem()),
        certificate: write("own.pem", own.pem()),
        key: write("own.key", own_key.serialize_pem()),
    }
}

/// Tests an etcd that shows a certificate and asks for one, and that unusable files are named.
#[test]
fn encrypted_members_serve_known_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path());
    let Some(cluster) = EtcdCluster::start_encrypted(1, &tls) else {
        return;
    };
    let address = format!("etcds://{}/tests/one", cluster.addresses());
    let mut config: EtcdConfig = address.parse().unwrap();
    let connect = |config: &EtcdConfig| EtcdCandidate::connect(config.clone(), vec!["key".to_owned()]);
    let error = connect(&config).unwrap_err().to_string();
    assert!(error.contains("--store-ca FILE"), "{error}");
    config.ca = Some(tls.ca.clone());
    config.identity = Some((tls.certificate.clone(), tls.key.clone()));
    let mut store = Etcd::lead(&config);
    assert_eq!(store.load().unwrap(), []);
    store.commit(&[Change::Put(meta(1))]).unwrap();
    assert_eq!(EtcdCandidate::read_all(&config).unwrap(), [meta(1)]);
    let text = folder.path().join("text");
    std::fs::write(&text, "no certificate").unwrap();
    let unusable: [(Option<PathBuf>, (PathBuf, PathBuf)); 3] = [
        (Some(text.clone()), (tls.certificate.clone(), tls.key.clone())),
        (Some(tls.ca.clone()), (text.clone(), tls.key.clone())),
        (Some(tls.ca.clone()), (tls.certificate.clone(), text.clone())),
    ];
    for (ca, identity) in unusable {
        (config.ca, config.identity) = (ca, Some(identity));
        let error = connect(&config).unwrap_err().to_string();
        assert!(error.contains(&text.display().to_string()), "{error}");
    }
    (config.ca, config.identity) = (Some(tls.ca.clone()), None);
    let error = connect(&config).unwrap_err().to_string();
    assert!(error.contains("give --store-cert FILE"), "{error}");
    config.is_encrypted = false;
    let error = connect(&config).unwrap_err().to_string();
    assert!(error.contains("write etcds://"), "{error}");
    config.is_encrypted = true;
    // The members trust another authority than this one.
    let elsewhere = tempfile::tempdir().unwrap();
    config.ca = Some(certificates(elsewhere.path()).ca);
    config.identity = Some((tls.certificate, tls.key));
    let error = connect(&config).unwrap_err();
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("--store-ca"), "{error}");
}
