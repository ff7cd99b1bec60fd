"""The views of a loader for people and programs: its measurements, its entry in the metrics, and its text in notebooks.

The module reads a loader, and changes nothing. It never waits for a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _html
from ._loading import IndexedLoading, IterableLoading
from ._verdict import LoaderStats, verdict_of

if TYPE_CHECKING:
    from ._loader import DataLoader

__all__ = ["html_of", "known_len", "name_of", "observed", "place_of", "stats_of"]


def stats_of(loader: DataLoader) -> LoaderStats:
    """Returns the measurements of the latest epoch with the verdict."""
    glanced = loader._clock.glance()
    is_opening = loader._is_opening or bool(glanced.get("is_opening"))
    measured = {**glanced, **loader._clock.measured(), "is_opening": is_opening}
    found = verdict_of({**measured, **_kind(loader)})
    position = {"epoch": loader.epoch, "step": loader.step}
    judged = {"bottleneck": found.bottleneck, "level": found.level, "verdict": found.sentence, "advice": found.advice}
    return LoaderStats({**measured, **position, **judged})


def observed(loader: DataLoader) -> dict[str, Any]:
    """Returns the measurements of a loader for the metrics of the process, without its counts."""
    stats = stats_of(loader)
    return {
        "waiting": loader._clock.recent_share(),
        "epoch": loader.epoch,
        "step": loader.step,
        "steps": known_len(loader),
        "prefetched": stats.get("prefetched"),
        "verdict": stats.verdict,
        "advice": stats.advice,
    }


def html_of(loader: DataLoader) -> str:
    """Returns the text of a loader in notebooks."""
    stats, steps = stats_of(loader), known_len(loader)
    position = f"{loader.step} batches" if steps is None else _html.progress(min(loader.step, steps), steps)
    waits = f"{stats['wait_share']:.0%} of {stats['elapsed_s']:.1f} s, for {stats['batches']} batches"
    ways = sorted(set(dict(stats.get("transports") or {}).values()))
    rows = [
        ("state", _html.text(stats)),
        ("reads", _html.text(f"{loader._loading} {place_of(loader)}")),
        ("epoch", _html.text(loader.epoch)),
        ("step", position),
        ("waits", _html.text(waits)),
        ("trainer", _html.text(f"{loader.rank.dp_rank} of {loader.rank.dp_size} ({loader.rank.source})")),
    ]
    if ways:
        rows.append(("transports", _html.text(", ".join(ways))))
    return _html.block(f"millstream.DataLoader {loader.name or ''}".strip(), _html.table(rows, is_html=True))


def name_of(loader: DataLoader) -> str:
    """Returns the name of a loader, or a word that stands for it."""
    return loader.name or "loader"


def place_of(loader: DataLoader) -> str:
    """Returns the place where batches are computed, as words."""
    if loader._service is not None:
        return f"on {loader._service}"
    return f"on a worker of its own with num_workers={loader.num_workers}" if loader.num_workers else "in this process"


def known_len(loader: DataLoader) -> int | None:
    """Returns the number of batches of an epoch; ``None`` if it is unknown."""
    try:
        return len(loader)
    except Exception:
        # The length of a program's sampler may raise any exception.
        return None


def _kind(loader: DataLoader) -> dict[str, Any]:
    """Returns the parts of the verdict that the arguments of a loader decide."""
    is_here = loader._service is None and not loader.num_workers
    return {
        "where": "service" if loader._service is not None else "here" if is_here else "own workers",
        "is_python": isinstance(loader._loading, IndexedLoading | IterableLoading),
        "num_workers": loader.num_workers,
    }
