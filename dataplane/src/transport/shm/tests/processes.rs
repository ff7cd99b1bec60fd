//! Runs a second process that receives a descriptor. The second process is this test binary again, and finds
//! the descriptor at its standard input.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use millstream_element::SlotAlloc;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::transport::shm::{Arena, ArenaBudget, ArenaView, Mapping};

/// The environment variable with the orders for the second process: the announced bytes and the offset and
/// length of a slot, or the announced bytes and the expected error.
const TOLD: &str = "MILLSTREAM_TEST_ARENA";

const SIZE_BYTES: usize = 1 << 20;

/// Runs a test of this folder in a second process. The tests for the second process are otherwise ignored.
pub(super) fn second_process(test: &str, told: &str, fd: OwnedFd) {
    // Test names do not contain the name of the crate.
    let here = module_path!().split_once("::").unwrap().1;
    let tests = here.rsplit_once("::").unwrap().0;
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .arg(format!("{tests}::{test}"))
        .env(TOLD, told)
        .stdin(Stdio::from(fd))
        .output()
        .unwrap();
    let (said, complaint) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{test}: {said}\n{complaint}");
    assert!(said.contains("1 passed"), "{test} did not run: {said}");
}

fn told() -> Vec<String> {
    std::env::var(TOLD)
        .unwrap()
        .split('|')
        .map(str::to_owned)
        .collect()
}

#[test]
#[ignore = "for a second process"]
fn sees_a_slot() {
    let told = told();
    let number = |index: usize| told[index].parse::<u64>().unwrap();
    let mapping = Mapping::open(std::io::stdin().as_fd(), number(0)).unwrap();
    let view = ArenaView::new(mapping);
    let slot = view.slot(number(1), number(2), true, || {}).unwrap();
    assert!(
        slot.iter()
            .enumerate()
            .all(|(index, byte)| *byte == (index % 251) as u8)
    );
}

#[test]
#[ignore = "for a second process"]
fn is_refused() {
    let told = told();
    let error = Mapping::open(std::io::stdin().as_fd(), told[0].parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains(&told[1]), "{error}");
}

#[test]
#[ignore = "for a second process"]
fn leaves_nothing_open_or_mapped() {
    let opened = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.matches("memfd:millstream-arena").count()
    };
    // The first file operations open the runtime's own files, before open files are counted.
    let budget = ArenaBudget::new(SIZE_BYTES, None);
    let before = (opened(), mapped());
    for _ in 0..3 {
        let arena = Arena::new(SIZE_BYTES, false, &budget).unwrap();
        let slot = arena.alloc(5000).unwrap().freeze();
        let mapping = Mapping::open(arena.fd(), SIZE_BYTES as u64).unwrap();
        let view = ArenaView::new(mapping);
        let seen = view.slot(0, 64, true, || {}).unwrap();
        assert_eq!((opened(), mapped()), (before.0 + 1, before.1 + 2));
        assert!(Mapping::open(arena.fd(), 64).is_err());
        drop((arena, view));
        // Each slot keeps the memory of its side mapped.
        assert_eq!((opened(), mapped()), (before.0 + 1, before.1 + 2));
        drop(seen);
        assert_eq!(mapped(), before.1 + 1);
        drop(slot);
        assert_eq!((opened(), mapped()), before);
    }
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn a_second_process_sees_a_slots_bytes() {
    let arena = Arena::new(SIZE_BYTES, false, &ArenaBudget::new(SIZE_BYTES, None)).unwrap();
    let _before = arena.alloc(10_000).unwrap();
    let mut slot = arena.alloc(100_000).unwrap();
    slot.iter_mut()
        .enumerate()
        .for_each(|(index, byte)| *byte = (index % 251) as u8);
    let slot = slot.freeze();
    let told = format!("{SIZE_BYTES}|{}|{}", arena.offset_of(&slot).unwrap(), slot.len());
    second_process(
        "processes::sees_a_slot",
        &told,
        arena.fd().try_clone_to_owned().unwrap(),
    );
}

#[test]
fn a_second_process_refuses_unannounced_memory() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let file = |size_bytes: usize, seals: SealFlags| {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, SIZE_BYTES as u64).unwrap();
        rustix::fs::ftruncate(&fd, size_bytes as u64).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        fd
    };
    let cases = [
        (
            SIZE_BYTES,
            all,
            2 * SIZE_BYTES,
            "expected 2097152 bytes of shared memory as announced by the peer, found 1048576",
        ),
        (SIZE_BYTES, all, SIZE_BYTES / 2, "expected 524288 bytes"),
        (4096, all, SIZE_BYTES, "found 4096 bytes"),
        (0, all, SIZE_BYTES, "found 0 bytes"),
        (SIZE_BYTES, all, 100, "whole pages"),
        (
            SIZE_BYTES,
            all - SealFlags::SHRINK,
            SIZE_BYTES,
            "against shrinking",
        ),
        (
            SIZE_BYTES,
            all - SealFlags::SEAL,
            SIZE_BYTES,
            "against further seals",
        ),
        (SIZE_BYTES, SealFlags::empty(), SIZE_BYTES, "not sealed"),
    ];
    for (size_bytes, seals, announced, error) in cases {
        let told = format!("{announced}|{error}");
        second_process("processes::is_refused", &told, file(size_bytes, seals));
    }
}

#[test]
fn descriptors_and_mappings_return_to_what_they_were() {
    let nothing = std::fs::File::open("/dev/null").unwrap();
    second_process("processes::leaves_nothing_open_or_mapped", "", nothing.into());
}
