//! Tests of the splits that each task holds, and of the time at which all splits are read.

use std::time::Duration;

use super::world::World;

/// Tests that tasks of different speeds end together (C5.1).
#[test]
fn tasks_of_different_speeds_end_together() {
    for split_times in [&[100, 100][..], &[50, 200], &[20, 20, 20, 400], &[1000, 3000]] {
        let seconds = 60.0;
        let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
        let splits = (seconds * speed) as u64;
        let mut world = World::new(splits, split_times);
        world.run(Duration::from_secs(600));
        let ends: Vec<f64> = world
            .readings
            .iter()
            .map(|reading| reading.ends_at.expect("it ends").as_secs_f64())
            .collect();
        let slowest = *split_times.iter().max().unwrap() as f64 / 1000.0;
        let last = ends.iter().copied().fold(0.0, f64::max);
        assert!(last < seconds * 1.05 + 3.0 * slowest, "{split_times:?}: {ends:?}");
        let read: u64 = world.readings.iter().map(|reading| reading.read).sum();
        assert_eq!(read, splits);
    }
}

/// Tests that a dispatcher that is away for 10 s delays no task. The absence falls at several times of an
/// epoch of two minutes (C5.1).
#[test]
fn an_absent_dispatcher_delays_no_task() {
    for away_at_s in [3, 5, 10, 30, 60, 90] {
        for split_times in [&[20, 20][..], &[100, 300], &[700, 700, 700]] {
            let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
            let mut world = World::new((120.0 * speed) as u64, split_times);
            let away_at = Duration::from_secs(away_at_s);
            world.run(away_at);
            let before = world.waited();
            world.is_away = true;
            world.run(away_at + Duration::from_secs(10));
            world.is_away = false;
            let waited = world.waited().saturating_sub(before);
            assert!(
                waited <= Duration::from_millis(100),
                "{split_times:?} at {away_at_s} s: {waited:?}"
            );
            world.run(Duration::from_secs(600));
            assert!(world.readings.iter().all(|reading| reading.ends_at.is_some()));
        }
    }
}

/// Tests that several leases last for the target time of a task a few seconds after its start, and that no
/// lease is long (C5.9).
#[test]
fn an_absent_dispatcher_delays_no_ordered_reader() {
    let cases = [
        (&[30, 30][..], 4),
        (&[30, 60], 7),
        (&[30, 30], 60),
        (&[100, 300], 10),
        (&[700, 700, 700], 10),
        (&[700, 700, 700], 60),
    ];
    for (split_times, away_at_s) in cases {
        let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
        let splits = (120.0 * speed) as u64;
        let mut world = World::of_job(splits, split_times, true);
        let away_at = Duration::from_secs(away_at_s);
        world.run(away_at);
        let before = world.waited();
        world.is_away = true;
        world.run(away_at + Duration::from_secs(10));
        world.is_away = false;
        assert_eq!(world.waited(), before, "{split_times:?} at {away_at_s} s");
        world.run(Duration::from_secs(600));
        let leases = world.readings.iter().flat_map(|reading| &reading.leases);
        assert!(leases.clone().all(|(_, count)| *count <= 8));
        assert_eq!(leases.map(|(_, count)| count).sum::<u64>(), splits);
    }
}

/// Tests that the leases of an ordered job take turns. If a reader in order waited for one worker for long,
/// the other workers would be idle (C5.9).
#[test]
fn leases_in_order_take_turns() {
    let mut world = World::of_job(4000, &[30, 30], true);
    world.run(Duration::from_secs(600));
    let owners = world.readings.iter().enumerate();
    let leases = owners.flat_map(|(owner, reading)| reading.leases.iter().map(move |lease| (*lease, owner)));
    let mut leases: Vec<((u64, u64), usize)> = leases.collect();
    leases.sort_unstable();
    let turns = leases.chunk_by(|one, next| one.1 == next.1);
    let longest = turns.map(|turn| turn.iter().map(|((_, count), _)| count).sum::<u64>());
    let longest: Vec<u64> = longest.collect();
    assert!(longest.iter().all(|splits| *splits <= 24), "{longest:?}");
}

/// Tests a task that begins late in an ordered job. The task must not find the next seconds leased to other
/// tasks (C5.9).
#[test]
fn late_tasks_in_order_soon_take_turns() {
    let begins_at = Duration::from_secs(3);
    let mut world = World::of_job(4000, &[30, 30], true);
    world.readings[1].busy_until = begins_at;
    world.run(begins_at);
    let alone = world.readings[0].read;
    world.run(Duration::from_secs(5));
    let first = world.readings[1].leases.first().expect("it has begun").0;
    assert!(first <= alone + 32, "it begins with {first} after {alone}");
}

/// Tests that an epoch causes at most one and a half requests for each slow split (C5.1, C5.9).
#[test]
fn requests_in_order_are_few() {
    for split_times in [&[30, 30][..], &[700, 700, 700]] {
        let mut world = World::of_job(2000, split_times, true);
        world.run(Duration::from_secs(3600));
        let requests: u64 = world.readings.iter().map(|reading| reading.requests).sum();
        assert!(requests <= 3000, "{split_times:?}: {requests}");
    }
}

/// Tests splits that take less time than a request. The requests must learn the pace of the first splits, so
/// that later leases have many splits (C5.1, C5.9).
#[test]
fn short_splits_in_order_wait_for_few_requests() {
    for split_times in [&[1, 1][..], &[2]] {
        let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
        let mut world = World::of_job((30.0 * speed) as u64, split_times, true);
        world.run(Duration::from_secs(60));
        let ends = world.readings.iter().filter_map(|reading| reading.ends_at);
        let last = ends.max().expect("it ends");
        assert!(
            last <= Duration::from_secs(33),
            "{split_times:?}: {last:?} instead of 30 s"
        );
    }
}

/// Tests tasks of short epochs that begin at different times. They must end within one split, although a task
/// that holds splits could lease one more with each request (C5.1).
#[test]
fn tasks_of_short_epochs_end_together() {
    let later = Duration::from_millis(20);
    let cases = [
        (200, &[80; 8][..]),
        (400, &[80; 8]),
        (1000, &[80; 40]),
        (100, &[40; 4]),
        (40, &[200; 4]),
        (60, &[30, 60]),
    ];
    for is_ordered in [false, true] {
        for (splits, split_times) in cases {
            let mut world = World::of_job(splits, split_times, is_ordered);
            for (reading, place) in world.readings.iter_mut().zip(0..) {
                reading.busy_until = later * place;
            }
            world.run(Duration::from_secs(60));
            let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
            let ideal = Duration::from_secs_f64(splits as f64 / speed);
            let slowest = Duration::from_millis(*split_times.iter().max().unwrap());
            let ends = world
                .readings
                .iter()
                .map(|reading| reading.ends_at.expect("it ends"));
            let last = ends.max().unwrap();
            let most = ideal + slowest + later * (split_times.len() - 1) as u32;
            assert!(
                last <= most,
                "{split_times:?}, ordered {is_ordered}: {last:?} of {ideal:?}"
            );
        }
    }
}
