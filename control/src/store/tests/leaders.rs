//! Tests of several leaders of one store on etcd: only the latest one changes anything.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::conformance::{Etcd, Subject};
use super::records::{apply, by_key, meta, record_of_each_kind, session_of};
use crate::dispatcher::{Change, Key, Record};
use crate::store::{Candidate, EtcdCandidate, EtcdConfig, EtcdUser, StoreError};

/// Returns the settings of a new prefix; the test ends where etcd is not installed.
macro_rules! config_or_skip {
    () => {
        match Etcd::config() {
            Some(config) => config,
            None => return,
        }
    };
}

/// Tests that a commit of any size is stored whole, and that records may grow and shrink.
#[test]
fn large_commits_are_stored_whole() {
    let _ = config_or_skip!();
    let mut subject = Etcd::new();
    let mut model: BTreeMap<Key, Record> = BTreeMap::new();
    let sizes = [3 << 20, 10, 70_000, 65_536, 200_000, 0];
    for (round, bytes) in sizes.into_iter().enumerate() {
        let mut changes = vec![Change::Put(meta(round as u64)), Change::Put(session_of(1, bytes))];
        changes.extend((10..600).map(|id| Change::Put(session_of(id, round))));
        subject.store().commit(&changes).unwrap();
        apply(&mut model, &changes);
        assert_eq!(by_key(subject.left_behind()), model);
        subject = subject.reopened();
        assert_eq!(by_key(subject.store().load().unwrap()), model);
    }
}

/// Tests that the log is applied to the records, and that nothing of it is left.
#[test]
fn long_logs_are_applied() {
    let _ = config_or_skip!();
    let mut subject = Etcd::new();
    let mut model: BTreeMap<Key, Record> = BTreeMap::new();
    subject.store().load().unwrap();
    for round in 0..200_u64 {
        let mut changes = vec![Change::Put(meta(round)), Change::Put(session_of(round % 7, 9))];
        if round % 3 == 0 {
            changes.push(Change::Delete(session_of(round % 5, 0).key()));
        }
        if round == 100 {
            changes.extend(record_of_each_kind().into_iter().map(Change::Put));
        }
        subject.store().commit(&changes).unwrap();
        apply(&mut model, &changes);
    }
    assert_eq!(by_key(subject.left_behind()), model);
    subject = subject.reopened();
    assert_eq!(by_key(subject.store().load().unwrap()), model);
}

/// Tests that copies of transactions which a hung member carries out later change nothing (C17.2).
#[test]
fn late_copies_change_nothing() {
    let config = config_or_skip!();
    let keys = vec!["key".to_owned()];
    let mut candidate = EtcdCandidate::connect(config.clone(), keys).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut store = runtime.block_on(candidate.campaign("here:1")).unwrap().unwrap();
    store.load().unwrap();
    let mut model: BTreeMap<Key, Record> = BTreeMap::new();
    let mut copies = 0;
    // The commits are applied twice. Some have several parts, and records grow, shrink and end.
    for round in 0..150_u64 {
        let bytes = if round % 40 == 5 { 3 << 20 } else { 100_000 };
        let mut changes = vec![
            Change::Put(meta(round)),
            Change::Put(session_of(round % 3, bytes)),
        ];
        if round % 4 == 0 {
            changes.push(Change::Delete(session_of((round + 1) % 3, 0).key()));
        }
        store.commit(&changes).unwrap();
        apply(&mut model, &changes);
        if round % 50 == 3 {
            copies += candidate.repeat_transactions();
            assert_eq!(
                by_key(EtcdCandidate::read_all(&config).unwrap()),
                model,
                "{round}"
            );
        }
    }
    store.end_service();
    let after = EtcdCandidate::connect(config, vec!["key".to_owned()]).unwrap();
    copies += candidate.repeat_transactions();
    assert!(copies > 100, "{copies}");
    assert_eq!(by_key(store.load().unwrap()), model);
    drop(store);
    let mut after = after;
    // The copies of the shutdown do not end this dispatcher, which started after it.
    assert!(runtime.block_on(after.campaign("there:1")).unwrap().is_some());
}

/// Tests that an earlier leader stores nothing, and learns that it no longer leads (C17.2).
#[test]
fn an_earlier_leader_changes_nothing() {
    let config = config_or_skip!();
    let mut old = Etcd::lead(&config);
    old.load().unwrap();
    old.commit(&[Change::Put(meta(1))]).unwrap();
    EtcdCandidate::end_leadership(&config);
    let mut new = Etcd::lead(&config);
    assert_eq!(new.load().unwrap(), [meta(1)]);
    new.commit(&[Change::Put(meta(2))]).unwrap();
    let error = old.commit(&[Change::Put(meta(3))]).unwrap_err();
    assert!(matches!(error, StoreError::Lost(_)), "{error}");
    assert_eq!(EtcdCandidate::read_all(&config).unwrap(), [meta(2)]);
    new.commit(&[Change::Put(meta(4))]).unwrap();
    assert_eq!(EtcdCandidate::read_all(&config).unwrap(), [meta(4)]);
}

/// Tests that a leader whose lease is over answers nothing, even without a commit (C17.3).
#[test]
fn a_leader_without_lease_holds_no_store() {
    let config = config_or_skip!();
    let mut store = Etcd::lead(&config);
    store.load().unwrap();
    assert!(store.is_held());
    store.commit(&[]).unwrap();
    EtcdCandidate::end_leadership(&config);
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.is_held() {
        assert!(Instant::now() < deadline, "the lease is never over");
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = store.commit(&[]).unwrap_err();
    assert!(matches!(error, StoreError::Lost(_)), "{error}");
}

/// Tests that a leader that stops leaves no leader behind (C17.3).
#[test]
fn a_released_store_has_no_leader() {
    let config = config_or_skip!();
    let mut store = Etcd::lead(&config);
    store.load().unwrap();
    store.commit(&[Change::Put(meta(1))]).unwrap();
    assert!(EtcdCandidate::has_leader(&config));
    store.release();
    assert!(!EtcdCandidate::has_leader(&config));
    let error = store.commit(&[Change::Put(meta(2))]).unwrap_err();
    assert!(matches!(error, StoreError::Lost(_)), "{error}");
    assert_eq!(EtcdCandidate::read_all(&config).unwrap(), [meta(1)]);
}

/// Tests that two dispatchers may end the same lease.
#[test]
fn ended_leases_end_again() {
    let config = config_or_skip!();
    let _store = Etcd::lead(&config);
    EtcdCandidate::end_leadership(&config);
    EtcdCandidate::end_absent_lease(&config).unwrap();
}

/// Tests that a shutdown ends the waiting dispatchers, and no later one (C17.6).
#[test]
fn a_shutdown_ends_waiting_dispatchers_only() {
    let config = config_or_skip!();
    let mut leader = Etcd::lead(&config);
    leader.load().unwrap();
    let keys = || vec!["key".to_owned()];
    let mut waiting = EtcdCandidate::connect(config.clone(), keys()).unwrap();
    leader.end_service();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(waiting.campaign("there:1")).unwrap().is_none());
    drop(leader);
    Etcd::lead(&config).load().unwrap();
}

/// Tests that a prefix has the records of one service, also while its key is replaced.
#[test]
fn a_prefix_belongs_to_one_service() {
    let config = config_or_skip!();
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let lead = |own: &[&str]| {
        let mut candidate = EtcdCandidate::connect(config.clone(), keys(own))?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        drop(runtime.block_on(candidate.campaign("here:1")).unwrap());
        Ok::<_, crate::store::EtcdError>(())
    };
    lead(&["old"]).unwrap();
    let error = lead(&["new"]).unwrap_err().to_string();
    assert!(error.contains("belongs to a service with other keys"), "{error}");
    for own in [&["new", "old"] as &[&str], &["new"]] {
        lead(own).unwrap();
    }
    let error = lead(&["old"]).unwrap_err().to_string();
    assert!(error.contains(&config.prefix), "{error}");
}

#[test]
fn an_absent_etcd_is_named() {
    let config: EtcdConfig = "etcd://127.0.0.1:1/x".parse().unwrap();
    let error = EtcdCandidate::connect(config, vec!["key".to_owned()]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("etcd at 127.0.0.1:1 does not answer"), "{text}");
    assert!(!text.contains("etcds://"), "{text}");
}

#[test]
fn users_of_an_open_etcd_are_refused() {
    let mut config = config_or_skip!();
    config.user = Some(EtcdUser {
        name: "mill".to_owned(),
        password: "secret".to_owned(),
    });
    let error = EtcdCandidate::connect(config, vec!["key".to_owned()]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("refuses this dispatcher") && !text.contains("secret"),
        "{text}"
    );
}

/// Tests that records of another program are refused by the prefix.
#[test]
fn damaged_prefixes_are_named() {
    let config = config_or_skip!();
    for (name, value) in [("head", "nonsense"), ("applied", "7"), ("records/\x07", "x")] {
        EtcdCandidate::overwrite(&config, name, value);
        let error = EtcdCandidate::read_all(&config).unwrap_err().to_string();
        assert!(
            error.contains(&config.prefix) && error.contains("damaged"),
            "{error}"
        );
        EtcdCandidate::overwrite(&config, name, "");
        EtcdCandidate::remove(&config, name);
    }
    let refusal = |value: &str| {
        EtcdCandidate::overwrite(&config, "cluster", value);
        let refused = EtcdCandidate::connect(config.clone(), vec!["key".to_owned()]);
        refused.unwrap_err().to_string()
    };
    for value in ["nonsense", "{}", r#"{"format": null}"#, r#"{"format": 0}"#] {
        let error = refusal(value);
        assert!(error.contains("damaged") && error.contains("cluster"), "{error}");
    }
    let error = refusal(r#"{"format": 2}"#);
    assert!(error.contains("a later version"), "{error}");
}
