"""Tests of the texts that notebooks show, and of lengths for progress bars."""

from __future__ import annotations

import html.parser
import re
from collections.abc import Callable
from typing import Any

import pytest

import millstream as ms

Start = Callable[..., str]

HOSTILE = "<script>alert('x')</script>&\"<img src=http://evil.example/x>"


class Checker(html.parser.HTMLParser):
    """A parser that checks that tags are closed, and collects tags and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(one: Any) -> Checker:
    """Returns the parsed text of an object for notebooks, which loads nothing and runs nothing."""
    found = one._repr_html_()
    parser = Checker()
    parser.feed(found)
    parser.close()
    assert parser.open == []
    assert parser.tags <= {"div", "strong", "table", "tr", "th", "td", "pre", "progress"}, parser.tags
    assert parser.attributes <= {"style", "value", "max"}, parser.attributes
    # Colours are those of the notebook, so the text is readable on dark and on light pages.
    styles = " ".join(re.findall(r'style="([^"]*)"', found))
    assert "url(" not in styles and not re.search(r"(?<![-\w])color:(?!inherit)", styles)
    return parser


def test_a_dataset_shows_its_operations() -> None:
    shown = checked(ms.Dataset.range(10).map(lambda x: x + 1).batch(4)).text
    assert "batch(size: 4" in shown and "range(start: 0" in shown and "elements3" in shown
    assert "elementsinfinite" in checked(ms.Dataset.range(3).repeat()).text
    assert "elementsunknown" in checked(ms.Dataset.range(3).filter(lambda x: x > 1)).text


def test_a_loader_shows_its_state() -> None:
    loader = ms.DataLoader(list(range(10)), batch_size=4, output="numpy", name="train")
    assert "has not requested a batch" in checked(loader).text
    next(iter(loader))
    found = checked(loader)
    assert "1 of 3" in found.text and "progress" in found.tags and "train" in found.text
    streaming = ms.DataLoader(lambda: iter([1, 2]), batch_size=None, element_spec=ms.TensorSpec((), ms.int64), output="numpy")
    assert "0 batches" in checked(streaming).text


def test_a_mixture_shows_its_components() -> None:
    mixture = ms.mix({HOSTILE: list(range(8)), "b": list(range(8))}, weights=[1, 1], batch_size=2, output="numpy")
    assert HOSTILE in checked(mixture).text


def test_hostile_names_are_escaped() -> None:
    loader = ms.DataLoader([1, 2], output="numpy", name=HOSTILE)
    assert HOSTILE in checked(loader).text and "<script" not in loader._repr_html_()
    dataset = ms.Dataset.from_tensors({HOSTILE: [1]})
    assert "</script>" in checked(dataset).text and "<script" not in dataset._repr_html_()
    named = ms.DataLoader([1, 2], service=f"millstream://{HOSTILE}", output="numpy")
    assert "<script" not in named._repr_html_() and HOSTILE in checked(named).text


def test_services_show_their_servers() -> None:
    with ms.local(workers=2, inline=True) as service:
        assert service.target in checked(service).text and checked(service).text.count("worker") == 2
    assert "closed" in checked(service).text and "closed" in repr(service)
    dispatcher = ms.service.DispatchServer(start=False)
    assert "not started" in checked(dispatcher).text and "not started" in repr(dispatcher)
    dispatcher.start()
    assert "runs" in checked(dispatcher).text and dispatcher.target.split("//")[1] in repr(dispatcher)
    dispatcher.stop()
    assert "stopped" in checked(dispatcher).text
    with ms.service.DispatchServer() as running:
        worker = ms.service.WorkerServer(ms.service.WorkerConfig(running.target, tags=[HOSTILE]))
        assert HOSTILE in checked(worker).text.replace("\\", "")
        worker.stop()


def test_processes_show_their_ends(processes: ms.LocalService) -> None:
    shown = checked(processes).text
    assert all(str(pid) in shown for pid in processes.pids) and shown.count("runs") == 3


def test_lengths_are_those_of_the_epoch(cluster: Start) -> None:
    # Batches of the parts would differ from batches of the whole dataset, so no length is known.
    uneven = ms.Dataset.range(2050).batch(100)
    served = ms.DataLoader(uneven, service=cluster(2), visitation="upstream", output="numpy")
    with pytest.raises(TypeError, match="each worker makes batches of its own part"):
        len(served)
    even = ms.DataLoader(ms.Dataset.range(64), service=cluster(2), visitation="upstream", output="numpy")
    assert len(even) == len(list(even)) == 64
    exact = ms.DataLoader(uneven, service=cluster(2), output="numpy", visitation="exactly_once")
    assert len(exact) == len(list(exact))
    here = ms.DataLoader(uneven, output="numpy")
    assert len(here) == len(list(here)) == len(uneven)
    filtered = ms.DataLoader(ms.Dataset.range(10).filter(lambda x: x > 3), output="numpy")
    with pytest.raises(TypeError, match="unknown number of elements"):
        len(filtered)


def test_a_resumed_epoch_keeps_its_length() -> None:
    loader = ms.DataLoader(list(range(20)), batch_size=2, output="numpy")
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    resumed = ms.DataLoader(list(range(20)), batch_size=2, output="numpy")
    resumed.load_state_dict(loader.state_dict())
    assert len(resumed) == 10 and resumed.step == 3 and len(list(resumed)) == 7


def test_the_next_epoch_has_its_own_length() -> None:
    dataset = ms.Dataset.range(24).batch(2)
    first = ms.DataLoader(dataset, visitation="exactly_once", output="numpy", dp_rank=0, dp_size=1)
    batches = iter(first)
    for _ in range(6):
        next(batches)
    # Two trainers continue in the middle of the epoch: the epoch is shorter for each of them than a whole epoch of one, and so is the next one.
    resumed = ms.DataLoader(dataset, visitation="exactly_once", output="numpy", dp_rank=0, dp_size=2)
    resumed.load_state_dict(first.state_dict())
    total, step = len(resumed), resumed.step
    assert len(list(resumed)) == total - step
    assert len(resumed) == len(list(resumed)) == 6
