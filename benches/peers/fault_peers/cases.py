"""The fault cases: each runs one epoch of a peer with faults, and compares the records with an undisturbed epoch.

Faults happen after fixed parts of the epoch, so that all peers meet them at the same steps. This module knows no library.
"""

import base64
import dataclasses
import importlib
import math
import pathlib
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .ledger import Generation, Step, judge
from .processes import PeerFailed, Service, Trainers, kill_worker
from .trainer import Trainer

PEERS = ("millstream_service", "tf_data_service", "mosaic_streaming", "torch_stateful", "grain_elastic")
#: The numbers of trainers before and after a change.
TRAINERS, OTHER_TRAINERS = 2, 3
#: The records of a step of all trainers. A trainer has an equal part of them.
GLOBAL_BATCH = 12
SEED = 7
#: The part of the epoch between two saved states, and the parts after which faults happen.
SAVE_EVERY, FIRST_FAULT, SECOND_FAULT = 0.1, 0.35, 0.65


def peer(name: str) -> ModuleType:
    """Returns the module of a peer."""
    return importlib.import_module(f"{__package__}.{name}")


@dataclasses.dataclass(frozen=True)
class Run:
    """One peer in one round: the program that starts its processes, its number of records, and its undisturbed epoch."""

    program: str
    peer: str
    records: int
    undisturbed: list[Step]

    def epoch(self, faults: "Callable[[Epoch], None]") -> dict[str, Any]:
        """Runs an epoch with faults in a new service. Returns its outcome."""
        with tempfile.TemporaryDirectory(prefix="millstream-faults-") as directory:
            with Service(self.program, self.peer, directory, self.records) as service:
                epoch = Epoch(self, service, directory)
                try:
                    faults(epoch)
                except PeerFailed as failed:
                    epoch.outcome["ended"] = str(failed)
                finally:
                    epoch.kill()
        if "ended" not in epoch.outcome:
            verdict = judge(epoch.generations, self.undisturbed, self.records)
            epoch.outcome.update(dataclasses.asdict(verdict))
        return epoch.outcome


class Epoch:
    """An epoch with the generations of its trainers."""

    def __init__(self, run: Run, service: Service, directory: str) -> None:
        self._run, self._directory = run, directory
        self.service = service
        self.outcome: dict[str, Any] = {}
        self.generations: list[Generation] = []
        self._trainers: Trainers | None = None
        self._states: list[str] | None = None
        self._steps = len(run.undisturbed)

    @property
    def trainers(self) -> Trainers:
        """The running trainers."""
        assert self._trainers is not None, "start the trainers first"
        return self._trainers

    def start(self, count: int = TRAINERS) -> None:
        """Starts trainers, which continue from the last saved states. Blocks until they have received their first batches."""
        settings = Trainer(
            peer=self._run.peer,
            rank=0,
            trainers=count,
            records=self._run.records,
            batch=getattr(peer(self._run.peer), "BATCH", GLOBAL_BATCH // count),
            seed=SEED,
            directory=self._directory,
            run=pathlib.Path(self._directory).name,
            target=self.service.target,
        )
        states = self._states_for(count)
        self._trainers = Trainers(self._run.program, settings, states)
        self.generations.append(self._trainers.generation)
        self._trainers.step()
        # The first batch of resumed trainers, and otherwise that of a new epoch.
        self.outcome["first_s" if len(self.generations) == 1 else "resume_s"] = self._trainers.seconds[0]

    def _states_for(self, count: int) -> list[str | None]:
        if self._states is None:
            return [None] * count
        if len(self._states) == count:
            return list(self._states)
        states = [base64.b64decode(state) for state in self._states]
        joined = peer(self._run.peer).joined(states, count)
        return [base64.b64encode(joined).decode()] * count

    def go_to(self, part: float) -> None:
        """Takes the steps up to a part of the epoch. Saves the states of all trainers regularly."""
        every = max(1, math.floor(self._steps * SAVE_EVERY))
        done = sum(len(generation.survived()) for generation in self.generations)
        while done < math.floor(self._steps * part):
            if not self.trainers.step():
                raise SystemExit(f"the epoch of {self._run.peer} ended before the fault: use more records")
            done += 1
            if done % every == 0:
                self._save()

    def _save(self) -> None:
        try:
            self._states = self.trainers.states()
            sizes = [len(base64.b64decode(state)) for state in self._states]
            self.outcome["state_bytes"] = max(sizes)
        except PeerFailed as failed:
            self.outcome["unsaved"] = str(failed)
        self.trainers.saved = len(self.trainers.generation.steps)

    def die(self) -> None:
        """Kills all trainers. Their steps after the last saved states are rolled back."""
        self.trainers.kill()
        self.trainers.generation.saved_steps = self.trainers.saved

    def finish(self) -> None:
        """Takes the remaining steps."""
        while self.trainers.step():
            pass

    def kill(self) -> None:
        """Kills the trainers that still run."""
        if self._trainers is not None:
            self._trainers.kill()


def worker_killed(epoch: Epoch) -> None:
    """Kills a worker process of the service, or a worker process of the first trainer."""
    epoch.start()
    epoch.go_to(FIRST_FAULT)
    taken = len(epoch.trainers.seconds)
    kill_worker((epoch.service.workers or epoch.trainers.workers())[0])
    epoch.finish()
    epoch.outcome["resume_s"] = max(epoch.trainers.seconds[taken:], default=0.0)


def trainers_killed(epoch: Epoch) -> None:
    """Kills all trainers once. The same number of trainers continues."""
    epoch.start()
    epoch.go_to(FIRST_FAULT)
    epoch.die()
    epoch.start()
    epoch.finish()


def trainers_changed(epoch: Epoch) -> None:
    """Kills all trainers once. Another number of trainers continues."""
    epoch.start()
    epoch.go_to(FIRST_FAULT)
    epoch.die()
    epoch.start(OTHER_TRAINERS)
    epoch.finish()


def killed_twice(epoch: Epoch) -> None:
    """Kills all trainers twice in one epoch. The same number of trainers continues each time."""
    epoch.start()
    for part in (FIRST_FAULT, SECOND_FAULT):
        epoch.go_to(part)
        epoch.die()
        epoch.start()
    epoch.finish()


def undisturbed(program: str, name: str, records: int) -> list[Step]:
    """Returns the steps of an epoch without faults."""
    steps: list[Step] = []

    def whole(epoch: Epoch) -> None:
        epoch.start()
        epoch.finish()
        steps.extend(epoch.trainers.generation.steps)

    outcome = Run(program, name, records, []).epoch(whole)
    if "ended" in outcome:
        raise SystemExit(f"the epoch of {name} without faults failed: {outcome['ended']}")
    if outcome["lost"] or outcome["repeated"] or outcome["damaged"]:
        raise SystemExit(f"the epoch of {name} without faults is not exact: {outcome}")
    return steps


#: The cases by name, with their titles.
CASES: dict[str, tuple[str, Callable[[Epoch], None]]] = {
    "worker": ("a worker process is killed", worker_killed),
    "trainer": (f"{TRAINERS} trainers are killed, and continue from their states", trainers_killed),
    "trainers": (f"{TRAINERS} trainers are killed, and {OTHER_TRAINERS} continue", trainers_changed),
    "twice": ("the trainers are killed twice in one epoch", killed_twice),
}
