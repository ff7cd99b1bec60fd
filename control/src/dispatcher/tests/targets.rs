//! Tests of readers that skip tasks: their messages, their end, and the tasks that end with them.

use millstream_link::{Role, TicketKey};

use super::rig::{READER, Rig, facts, failed};
use crate::dispatcher::{
    ClientPush, DispatcherConfig, LOCAL_SOCKET_BYTES_MAX, Phase, Reply, Request, Snapshot, StopReason,
    WorkerAddresses, WorkerPush, WorkerRegistration,
};
use crate::error::{Code, Error};
use crate::id::{ClientId, JobId, SessionId, TaskId};
use crate::job::{DeploymentMode, JobParameters, Policy, TargetWorkers};
use crate::split::Seen;
use crate::whereabouts::Whereabouts;

const END: ClientPush = ClientPush::IterationFinished { splits_lost: 0 };

/// C14.1, C14.2
#[test]
fn a_local_reader_ends_with_its_own_tasks() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Local);
    let here = worker(&mut rig, 1, 1, &[]);
    let away = worker(&mut rig, 2, 2, &[]);
    let reader = open(&mut rig, job, 1).unwrap();
    let (own, other) = (rig.tasks(here)[0], rig.tasks(away)[0]);
    assert_eq!(shown(&mut rig, reader), (vec![own], false));
    drained(&mut rig, reader, own);
    assert_eq!(rig.told(&END), 0, "the task has not said that it ended");
    rig.finish(here, own);
    assert_eq!(rig.told(&END), 1);
    assert_eq!(
        rig.machine.status().iterations[0].phase,
        Phase::Running,
        "others may read on"
    );
    // Neither a failure of another worker's task nor a later task concerns this reader.
    rig.ask(away, Role::Worker, failed(other, "broken")).unwrap();
    worker(&mut rig, 3, 1, &[]);
    rig.restart();
    assert_eq!(shown(&mut rig, reader), (vec![], true));
    assert!(
        !rig.client_pushes
            .iter()
            .any(|(_, push)| matches!(push, ClientPush::TaskFailed { .. } | ClientPush::TaskAdded(_)))
    );
}

/// C14.1
#[test]
fn a_host_has_several_reading_processes() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Host);
    let [one, beside, away] = [1, 2, 30].map(|process| worker(&mut rig, process, process, &["colocated"]));
    let reader = open(&mut rig, job, 1).unwrap();
    let own = [one, beside].map(|worker| rig.tasks(worker)[0]);
    assert_eq!(shown(&mut rig, reader).0, own);
    let stranger = open(&mut rig, job, 31).unwrap();
    assert_eq!(shown(&mut rig, stranger).0, rig.tasks(away));
}

/// Tests that a reader that skips no task waits for the end of the whole iteration (C14.1, C14.2, C3.4).
#[test]
fn auto_leaves_out_others_colocated_workers_only() {
    for tagged in [true, false] {
        let mut rig = Rig::new();
        let job = job(&mut rig, Policy::Off, TargetWorkers::Auto);
        let tags: &[&str] = if tagged { &["x", "CoLocated"] } else { &["x"] };
        let here = worker(&mut rig, 1, 1, tags);
        let away = worker(&mut rig, 2, 2, tags);
        let open_to_all = worker(&mut rig, 3, 3, &[]);
        let reader = open(&mut rig, job, 1).unwrap();
        let tasks = [here, away, open_to_all].map(|worker| rig.tasks(worker)[0]);
        let shown = shown(&mut rig, reader).0;
        if tagged {
            assert_eq!(shown, [tasks[0], tasks[2]]);
        } else {
            assert_eq!(shown, tasks);
        }
        rig.finish(here, tasks[0]);
        rig.finish(open_to_all, tasks[2]);
        assert_eq!(rig.told(&END), usize::from(tagged));
    }
}

/// C14.3
#[test]
fn splits_left_aside_end_with_the_iteration() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, TargetWorkers::Local);
    let here = worker(&mut rig, 1, 1, &[]);
    let away = worker(&mut rig, 2, 2, &[]);
    open(&mut rig, job, 1).unwrap();
    let (own, other) = (rig.tasks(here)[0], rig.tasks(away)[0]);
    while !rig.lease(here, own).unwrap().1 {}
    rig.finish(here, own);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.phase, iteration.splits_done), (Phase::Finished, 100));
    assert_eq!(rig.told(&END), 1);
    let stop = WorkerPush::Stop {
        task: other,
        reason: StopReason::Settled,
    };
    assert!(rig.worker_pushes.contains(&(away, stop)));
}

/// Tests a pipeline that stops by itself, while another reader's task would read the remaining splits
/// (C14.3).
#[test]
fn an_early_stop_spares_splits_left_aside() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, TargetWorkers::Local);
    let here = worker(&mut rig, 1, 1, &[]);
    worker(&mut rig, 2, 2, &[]);
    open(&mut rig, job, 1).unwrap();
    let task = rig.tasks(here)[0];
    rig.lease(here, task).unwrap();
    let finish = Request::FinishTask {
        task,
        delivered: true,
        exhausted: false,
        cut_short: false,
    };
    rig.drain_task(task);
    rig.ask(here, Role::Worker, finish).unwrap();
    assert_eq!(rig.told(&END), 1);
    assert_eq!(rig.machine.status().iterations[0].phase, Phase::Running);
}

/// C14.3, C6.5
#[test]
fn free_splits_go_to_workers_with_readers() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, TargetWorkers::Local);
    let [dies, lives] = [1, 2].map(|session| worker(&mut rig, session, 1, &[]));
    let away = worker(&mut rig, 3, 2, &[]);
    let reader = open(&mut rig, job, 1).unwrap();
    let (gone, kept) = (rig.tasks(dies)[0], rig.tasks(lives)[0]);
    let held = rig.lease(dies, gone).unwrap().0;
    while !rig.lease(lives, kept).unwrap().1 {}
    rig.finish(lives, kept);
    rig.ask(dies, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(rig.told(&END), 0, "something of its own is being removed");
    let acknowledge = Request::Acknowledge {
        client: reader,
        task: gone,
        seen: Seen::default(),
    };
    rig.ask(READER, Role::Read, acknowledge).unwrap();
    assert_eq!(rig.tasks(away).len(), 1, "nobody reads it");
    let again = rig.tasks(lives)[1];
    assert_eq!(rig.lease(lives, again).unwrap().0, held);
    assert!(rig.lease(lives, again).unwrap().1);
    rig.finish(lives, again);
    assert_eq!(rig.told(&END), 1);
    assert_eq!(rig.machine.status().iterations[0].splits_lost, 0);
}

/// Tests that a reader has seen no element of a task that it skips, present or not (C14.1).
#[test]
fn a_remote_reader_neither_delays_nor_loses() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, TargetWorkers::Local);
    let [dies, lives] = [1, 2].map(|session| worker(&mut rig, session, 1, &[]));
    worker(&mut rig, 3, 2, &[]);
    let reader = open(&mut rig, job, 1).unwrap();
    let stranger = open(&mut rig, job, 2).unwrap();
    let gone = rig.tasks(dies)[0];
    rig.lease(dies, gone).unwrap();
    rig.ask(dies, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(rig.machine.status().iterations[0].removals, 1);
    let release = Request::Release { client: stranger };
    rig.ask(READER, Role::Read, release).unwrap();
    let acknowledge = Request::Acknowledge {
        client: reader,
        task: gone,
        seen: Seen::default(),
    };
    rig.ask(READER, Role::Read, acknowledge).unwrap();
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.removals, iteration.splits_lost), (0, 0));
    let kept = rig.tasks(lives)[0];
    let mut read = 0;
    while let (count, false) = rig.lease(lives, kept).unwrap() {
        read += count;
    }
    assert_eq!(read, 100);
}

/// C14.4
#[test]
fn local_reading_needs_a_worker_in_the_process() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Local);
    let away = worker(&mut rig, 1, 2, &[]);
    for nowhere in [Whereabouts::default(), at(1)] {
        let error = open_at(&mut rig, job, nowhere).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("target_workers `local`"), "{error}");
    }
    open(&mut rig, job, 2).unwrap();
    rig.ask(away, Role::Worker, Request::LeaveWorker).unwrap();
    assert!(open(&mut rig, job, 2).is_err());
}

/// C2.3, C9.1
#[test]
fn targets_that_contradict_the_job_are_refused() {
    let mut rig = Rig::new();
    let dataset = rig.register(None, facts()).unwrap();
    let mut parameters = JobParameters::new(dataset, Policy::Off);
    rig.job(Some("shared"), parameters.clone()).unwrap();
    for (target, text) in [
        (TargetWorkers::Any, "target_workers is auto, not any"),
        (TargetWorkers::Local, "target_workers is auto, not local"),
    ] {
        parameters.target_workers = target;
        let error = rig.job(Some("shared"), parameters.clone()).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(text), "{error}");
    }
    parameters.num_consumers = Some(2);
    let error = rig.job(None, parameters).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.contains("num_consumers"), "{error}");
}

/// C14.4, C14.2, C8.4
#[test]
fn colocated_processes_read_their_own_shares() {
    let mut rig = Rig::with(DispatcherConfig {
        worker_addresses: WorkerAddresses::new(["one:1", "two:2", "three:3"]).unwrap(),
        deployment_mode: DeploymentMode::Colocated,
        ..DispatcherConfig::default()
    });
    let dataset = rig.register(None, facts()).unwrap();
    let parameters = JobParameters::new(dataset, Policy::Data);
    let job = rig.job(Some("shared"), parameters.clone()).unwrap();
    assert_eq!(rig.job(Some("shared"), parameters).unwrap(), job);
    let here = worker_at(&mut rig, 1, "one:1", 1, &[]);
    worker_at(&mut rig, 2, "two:2", 2, &[]);
    let error = open(&mut rig, job, 9).unwrap_err();
    assert!(error.message.contains("share of its own workers"), "{error}");
    let reader = open(&mut rig, job, 1).unwrap();
    let own = rig.tasks(here)[0];
    assert_eq!(shown(&mut rig, reader).0, [own]);
    rig.finish(here, own);
    assert_eq!(rig.told(&END), 1, "the third worker is not waited for");
}

/// C14.2, C7.5, C8.4
#[test]
fn only_the_own_processs_lost_share_is_missed() {
    let mut rig = Rig::with(DispatcherConfig {
        worker_addresses: WorkerAddresses::new(["one:1", "two:2", "three:3"]).unwrap(),
        ..DispatcherConfig::default()
    });
    let job = job(&mut rig, Policy::Data, TargetWorkers::Local);
    let kept = worker_at(&mut rig, 1, "one:1", 1, &[]);
    let gone = worker_at(&mut rig, 2, "two:2", 1, &[]);
    let away = worker_at(&mut rig, 3, "three:3", 2, &[]);
    let reader = open(&mut rig, job, 1).unwrap();
    let lost = rig.tasks(gone)[0];
    for worker in [gone, away] {
        rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
    }
    let acknowledge = Request::Acknowledge {
        client: reader,
        task: lost,
        seen: Seen::default(),
    };
    rig.ask(READER, Role::Read, acknowledge).unwrap();
    let task = rig.tasks(kept)[0];
    rig.finish(kept, task);
    assert_eq!(rig.told(&END), 0, "a share of its own is missing");
    rig.pass(12, &[kept], &[reader]);
    let workers = vec!["two:2".to_owned()];
    assert_eq!(rig.told(&ClientPush::WorkersLost { workers }), 1);
}

/// C7.5, C14.1
#[test]
fn a_reader_without_workers_is_told() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Local);
    let here = worker(&mut rig, 1, 1, &[]);
    let away = worker(&mut rig, 2, 2, &[]);
    let reader = open(&mut rig, job, 1).unwrap();
    let stranger = open(&mut rig, job, 2).unwrap();
    rig.ask(here, Role::Worker, Request::LeaveWorker).unwrap();
    assert!(rig.machine.status().iterations[0].waiting_for_workers);
    rig.pass(12, &[away], &[reader, stranger]);
    let told = rig
        .client_pushes
        .iter()
        .filter(|(_, push)| matches!(push, ClientPush::WorkersLost { .. }));
    let told: Vec<_> = told.collect();
    let workers = vec!["worker-1:1".to_owned()];
    assert_eq!(told, [&(reader, ClientPush::WorkersLost { workers })]);
}

/// C14.5
#[test]
fn process_bound_splits_end_with_their_readers() {
    for (target, tags) in [
        (TargetWorkers::Local, &[][..]),
        (TargetWorkers::Auto, &["COLOCATED"][..]),
    ] {
        let mut rig = Rig::new();
        let job = job(&mut rig, Policy::Dynamic, target);
        let here = worker(&mut rig, 1, 1, tags);
        let away = worker(&mut rig, 2, 2, tags);
        let readers = [1, 1].map(|process| open(&mut rig, job, process).unwrap());
        let stranger = open(&mut rig, job, 2).unwrap();
        let (own, other) = (rig.tasks(here)[0], rig.tasks(away)[0]);
        let held = rig.lease(here, own).unwrap().0;
        for (place, client) in readers.into_iter().enumerate() {
            rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
            let stops = rig.worker_pushes.iter();
            let stops = stops.filter(|(to, push)| *to == here && matches!(push, WorkerPush::Stop { .. }));
            assert_eq!(stops.count(), place, "the last of them ends it");
        }
        let iteration = &rig.machine.status().iterations[0];
        assert_eq!(iteration.splits_lost, held, "somebody has seen of it");
        let error = open(&mut rig, job, 1).unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition);
        assert!(error.message.contains("deleted"), "{error}");
        rig.restart();
        assert!(open(&mut rig, job, 1).is_err());
        assert_eq!(shown(&mut rig, stranger).0, [other], "others go on");
        open(&mut rig, job, 2).unwrap();
    }
}

/// Tests a reader that leaves before or after the iteration's end (C14.5).
#[test]
fn a_processs_pass_is_read_once_there() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Local);
    let here = worker(&mut rig, 1, 1, &[]);
    let client = open(&mut rig, job, 1).unwrap();
    let task = rig.tasks(here)[0];
    rig.finish(here, task);
    assert_eq!(rig.told(&END), 1);
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
    assert_eq!(open(&mut rig, job, 1).unwrap_err().code, Code::FailedPrecondition);
    let next = Request::OpenIteration {
        job,
        repetition: 1,
        consumer: None,
        whereabouts: at(1),
    };
    rig.ask(READER, Role::Read, next).unwrap();
}

/// Tests that a reader of all workers leaves its tasks to other readers (C14.5).
#[test]
fn under_any_and_host_nothing_is_deleted() {
    for target in [TargetWorkers::Any, TargetWorkers::Host, TargetWorkers::Auto] {
        let mut rig = Rig::new();
        let job = job(&mut rig, Policy::Off, target);
        worker(&mut rig, 1, 1, &[]);
        let client = open(&mut rig, job, 1).unwrap();
        rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
        open(&mut rig, job, 1).unwrap();
    }
}

/// C14.6
#[test]
fn local_readers_learn_a_workers_new_socket() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, TargetWorkers::Any);
    let with_socket = |socket: &str| WorkerRegistration {
        local_socket: Some(socket.to_owned()),
        ..registration("one:1", 11, &[])
    };
    let near = open(&mut rig, job, 12).unwrap();
    let far = open(&mut rig, job, 22).unwrap();
    for (session, socket) in [(1, "@first"), (2, "@second")] {
        let request = Request::RegisterWorker(with_socket(socket));
        rig.ask(SessionId(session), Role::Worker, request).unwrap();
        for (reader, expected) in [(near, Some(socket)), (far, None)] {
            let told = snapshot(&mut rig, reader).tasks;
            let [task] = &told[..] else { panic!("{told:?}") };
            assert_eq!(task.local_socket.as_deref(), expected);
            assert_eq!(task.whereabouts, at(11));
            assert_eq!(rig.told(&ClientPush::TaskAdded(task.clone())), 1);
            rig.restart();
            assert_eq!(snapshot(&mut rig, reader).tasks, told, "it was stored");
        }
    }
    let long = with_socket(&"s".repeat(LOCAL_SOCKET_BYTES_MAX + 1));
    let refused = rig.ask(SessionId(3), Role::Worker, Request::RegisterWorker(long));
    assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
}

/// Returns the whereabouts of a process, with ten processes on each host.
fn at(process: u64) -> Whereabouts {
    Whereabouts {
        host: Some(process / 10),
        process: Some(process),
    }
}

fn job(rig: &mut Rig, policy: Policy, target_workers: TargetWorkers) -> JobId {
    let dataset = rig.register(None, facts()).unwrap();
    let parameters = JobParameters {
        target_workers,
        ..JobParameters::new(dataset, policy)
    };
    rig.job(None, parameters).unwrap()
}

fn worker(rig: &mut Rig, session: u64, process: u64, tags: &[&str]) -> SessionId {
    worker_at(rig, session, &format!("worker-{session}:1"), process, tags)
}

fn worker_at(rig: &mut Rig, session: u64, address: &str, process: u64, tags: &[&str]) -> SessionId {
    let registration = registration(address, process, tags);
    let session = SessionId(session);
    rig.ask(session, Role::Worker, Request::RegisterWorker(registration))
        .unwrap();
    session
}

fn registration(address: &str, process: u64, tags: &[&str]) -> WorkerRegistration {
    WorkerRegistration {
        address: address.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ticket_key: TicketKey::from_bytes([1; 32]),
        version: String::new(),
        whereabouts: at(process),
        local_socket: None,
    }
}

fn open(rig: &mut Rig, job: JobId, process: u64) -> Result<ClientId, Error> {
    open_at(rig, job, at(process))
}

fn open_at(rig: &mut Rig, job: JobId, whereabouts: Whereabouts) -> Result<ClientId, Error> {
    let request = Request::OpenIteration {
        job,
        repetition: 0,
        consumer: None,
        whereabouts,
    };
    let reply = rig.ask(READER, Role::Read, request)?;
    let Reply::Client(client, _) = reply else {
        panic!("{reply:?}")
    };
    Ok(client)
}

/// Returns the tasks in a client's snapshot, and whether the snapshot says that the iteration is finished.
fn shown(rig: &mut Rig, client: ClientId) -> (Vec<TaskId>, bool) {
    let Snapshot {
        tasks,
        finished,
        failed,
        ..
    } = snapshot(rig, client);
    assert!(failed.is_empty(), "{failed:?}");
    (tasks.iter().map(|task| task.task).collect(), finished)
}

fn snapshot(rig: &mut Rig, client: ClientId) -> Snapshot {
    rig.ask(READER, Role::Read, Request::Attach { client }).unwrap();
    let Some((to, ClientPush::Snapshot(snapshot))) = rig.client_pushes.last() else {
        panic!("no snapshot")
    };
    assert_eq!(*to, client);
    snapshot.clone()
}

fn drained(rig: &mut Rig, client: ClientId, task: TaskId) {
    let request = Request::TaskDrained { client, task };
    rig.ask(READER, Role::Read, request).unwrap();
}
