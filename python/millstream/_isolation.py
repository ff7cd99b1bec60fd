"""Confines this process and its descendants with Landlock and seccomp: ``--isolation strict``.

Confined code can read only Python, its libraries and the allowed folders of its worker. Confined code can write only to its scratch folder. Confined code
cannot open connections, and cannot trace or signal processes outside. Confined code therefore cannot read a key from a file or from the environment of another
process. Confined code can still use processor time, memory and disk space within the worker's limits, and can exploit defects of the kernel.

The module needs Linux 5.13 or later. From Linux 6.7 on Landlock also refuses TCP, and from Linux 6.12 on signals to processes outside.
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
#: The rights that rules for files may contain. Rules for folders may contain all rights.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
#: The number of file rights in each version of the Landlock interface, from version 1 on.
_FILE_RIGHTS = (13, 14, 15, 15, 16)
#: The first interface versions with rules for TCP, and with scopes for signals and abstract sockets.
_NET_VERSION, _SCOPE_VERSION = 4, 6

# <linux/capability.h>.
_CAPABILITY_VERSION = 0x20080522

# <linux/seccomp.h>, <linux/filter.h>, <linux/prctl.h>.
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
#: The offsets in the data of a seccomp filter. Arguments are 64-bit words, with the low half first.
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16

_AF_UNIX = 1
#: The flags by which ``clone`` creates namespaces, for example for users, mounts and networks.
_NEW_NAMESPACES = 0x7E020080
#: The bit that marks x32 system calls on x86-64, which would otherwise bypass a filter by numbers.
_X32 = 0x40000000

#: For each architecture the audit constant, and the numbers of the system calls that are refused or inspected.
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
#: The system calls whose arguments decide whether they are allowed.
_LOOKED_AT = ("socket", "sendto", "clone", "clone3")

#: The system paths that programs usually read when they start.
_OF_SYSTEM = (
    "/bin", "/lib", "/lib32", "/lib64", "/usr", "/proc", "/sys/devices/system", "/sys/fs/cgroup", "/etc/group", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd",
    "/etc/timezone", "/dev/random", "/dev/urandom", "/dev/zero",
)  # fmt: skip
_WRITABLE_DEVICES = ("/dev/null", "/dev/full")


def restrict(scratch: str, readable: Iterable[str]) -> None:
    """Confines this process and its descendants permanently. The process must have only one thread.

    Args:
        scratch: The only writable folder, which becomes the home folder and the folder for temporary files.
        readable: The readable folders and files, in addition to Python and its libraries.

    Raises:
        OSError: The kernel lacks Landlock or seccomp, or refuses a request.
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
    """Drops all capabilities, because a process with capabilities can read other processes in spite of Landlock."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _call(libc.capset, "capset", header, bytes(24))


def _of_python() -> Iterator[str]:
    """Yields the folders of the interpreter, its packages and its libraries."""
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
    # An older kernel accepts the longer structure if all fields that it does not know are zero.
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
    """Permits access beneath a path. Does nothing if the path does not exist."""
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
        raise OSError(errno.ENOSYS, f"--isolation strict supports only x86_64 and aarch64, found {machine}")
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(*_ARCHITECTURES[machine]))
    kept = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    _call(libc.prctl, "seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)


def _filter(architecture: int, calls: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """Returns a BPF program. An instruction has an operation, the jump offsets for a true and a false test, and a constant."""
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EACCES)
    low, high = (_AT_ARGUMENTS + 8 * 4, _AT_ARGUMENTS + 8 * 4 + 4)
    program = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_JUMP_ABOVE, 0, 1, _X32),
        refuse,
        # A filter cannot read the flags of `clone3`, which are in memory. Libraries use `clone` if `clone3` does not exist.
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
        # `sendto` with an address is refused. A message to the other end of a socket pair has no address.
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
