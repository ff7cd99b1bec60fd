"""Confines this process and all that it starts to reading named folders, with Landlock and seccomp: ``--isolation strict``.

Code that is confined reads Python, its libraries and the folders of its worker; it writes to a folder of its own; it opens no
connection, and traces and signals no process outside. So it obtains no key that stands in a file or in another process's
environment. It can still use processor, memory and disk within the worker's limits, and what a defect of the kernel gives it.

Needs Linux 5.13 or later; from 6.7 the kernel refuses TCP a second time, from 6.12 signals to processes outside.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator

__all__ = ["restrict"]

# <linux/landlock.h>. The numbers of these system calls are the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
#: Rights that rules of files may name; those of folders may name all.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
#: How many of the rights to files each version of the interface knows, from the first on.
_FILE_RIGHTS = (13, 14, 15, 15, 16)
#: The versions that know TCP, and signals and abstract sockets.
_NET_VERSION, _SCOPE_VERSION = 4, 6

# <linux/capability.h>.
_CAPABILITY_VERSION = 0x20080522

# <linux/seccomp.h>, <linux/filter.h>, <linux/prctl.h>.
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
#: Offsets in the data that a filter sees; arguments are words of 64 bits, the low half first.
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16

_AF_UNIX = 1
#: The flags by which ``clone`` makes namespaces: of users, mounts, networks and the like.
_NEW_NAMESPACES = 0x7E020080
#: Calls of x86-64 under their x32 numbers, which would pass a filter of numbers.
_X32 = 0x40000000

#: By architecture: what auditing calls it, and the numbers of the system calls that are refused or looked at.
_ARCHITECTURES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41, "connect": 42, "sendto": 44, "bind": 49, "clone": 56, "clone3": 435, "ptrace": 101, "mount": 165,
            "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "add_key": 248, "request_key": 249,
            "keyctl": 250, "perf_event_open": 298, "open_by_handle_at": 304, "process_vm_readv": 310, "process_vm_writev": 311,
            "kcmp": 312, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
            "pidfd_getfd": 438, "mount_setattr": 442,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198, "connect": 203, "sendto": 206, "bind": 200, "clone": 220, "clone3": 435, "ptrace": 117, "mount": 40,
            "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "add_key": 217, "request_key": 218,
            "keyctl": 219, "perf_event_open": 241, "open_by_handle_at": 265, "process_vm_readv": 270, "process_vm_writev": 271,
            "kcmp": 272, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
            "pidfd_getfd": 438, "mount_setattr": 442,
        },
    ),
}  # fmt: skip
#: Calls of which the arguments decide.
_LOOKED_AT = ("socket", "sendto", "clone", "clone3")

#: What programs of a usual system read at their start, beside their own files.
_OF_SYSTEM = (
    "/bin", "/lib", "/lib32", "/lib64", "/usr", "/proc", "/sys/devices/system", "/sys/fs/cgroup", "/etc/group", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd",
    "/etc/timezone", "/dev/random", "/dev/urandom", "/dev/zero",
)  # fmt: skip
_WRITABLE_DEVICES = ("/dev/null", "/dev/full")


def restrict(scratch: str, readable: Iterable[str]) -> None:
    """Confines this process, and all that it starts, for good. Call it while there is one thread.

    Args:
        scratch: The folder that it may write to, which becomes its home and the place of its temporary files.
        readable: Folders and files that it may read, beside Python and its libraries.

    Raises:
        OSError: The kernel does not offer what this needs.
    """
    for name in ("HOME", "TMPDIR", "TMP", "TEMP"):
        os.environ[name] = scratch
    os.environ.pop("XDG_CACHE_HOME", None)
    tempfile.tempdir = None
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, "no_new_privs", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities(libc)
    _confine_files(libc, scratch, (*_of_python(), *readable))
    _confine_calls(libc)


def _call(function: object, what: str, *arguments: object) -> int:
    result = function(*arguments)  # type: ignore[operator]
    if result < 0:
        number = ctypes.get_errno()
        message = f"{what}: {os.strerror(number)}; --isolation strict needs Linux 5.13 or later with Landlock and seccomp"
        raise OSError(number, message)
    return int(result)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Gives up what root may do beyond its own files: with it, a process looks into others in spite of Landlock."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _call(libc.capset, "capset", header, bytes(24))


def _of_python() -> Iterator[str]:
    """The folders of the interpreter, its packages and its libraries."""
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    yield os.path.realpath(sys.executable)
    yield from filter(None, sys.path)
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))


def _confine_files(libc: ctypes.CDLL, scratch: str, readable: Iterable[str]) -> None:
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    version = _call(syscall, "Landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), _RULESET_VERSION)
    every = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    network = 0b11 if version >= _NET_VERSION else 0
    scopes = 0b11 if version >= _SCOPE_VERSION else 0
    attributes = struct.pack("=QQQ", every, network, scopes)
    # A kernel refuses a longer structure than it knows only where what it does not know is not zero.
    rules = _call(syscall, "Landlock", _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        read = _EXECUTE | _READ_FILE | _READ_DIR
        for path in (*_OF_SYSTEM, *readable):
            _permit(libc, rules, path, read)
        for path in _WRITABLE_DEVICES:
            _permit(libc, rules, path, _READ_FILE | _WRITE_FILE)
        _permit(libc, rules, scratch, every & ~_EXECUTE)
        _call(syscall, "Landlock", _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _permit(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Permits what is beneath a path; a path that does not exist, nothing."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _call(libc.syscall, f"Landlock for {path}", _ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(place)


def _confine_calls(libc: ctypes.CDLL) -> None:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"--isolation strict knows the system calls of x86_64 and aarch64, and not those of {machine}")
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(*_ARCHITECTURES[machine]))
    kept = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    _call(libc.prctl, "seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)


def _filter(architecture: int, calls: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """A program of the kernel's filter machine: each instruction with where it goes on if its test holds, and if not."""
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EACCES)
    low, high = (_AT_ARGUMENTS + 8 * 4, _AT_ARGUMENTS + 8 * 4 + 4)
    program = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_JUMP_ABOVE, 0, 1, _X32),
        refuse,
        # Its flags lie in memory, which no filter sees: libraries use `clone` where there is no `clone3`.
        (_JUMP_EQUAL, 0, 1, calls["clone3"]),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 4, calls["clone"]),
        (_LOAD, 0, 0, _AT_ARGUMENTS),
        (_JUMP_SET, 0, 1, _NEW_NAMESPACES),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQUAL, 0, 4, calls["socket"]),
        (_LOAD, 0, 0, _AT_ARGUMENTS),
        (_JUMP_EQUAL, 1, 0, _AF_UNIX),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        # To an address: what is sent to the other end of a pair has none.
        (_JUMP_EQUAL, 0, 6, calls["sendto"]),
        (_LOAD, 0, 0, low),
        (_JUMP_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, high),
        (_JUMP_EQUAL, 1, 0, 0),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    for name, number in calls.items():
        if name not in _LOOKED_AT:
            program += [(_JUMP_EQUAL, 0, 1, number), refuse]
    program.append((_RETURN, 0, 0, _ALLOW))
    return program
