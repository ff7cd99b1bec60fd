"""Tests of the overview sentence: each cause of slow or failing training is named on the page.

If the variable ``MILLSTREAM_SCREENSHOTS`` names a directory, each test stores a picture of the sentence there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from admin_service import COMMAND, Service
from dashboard_page import Page
from selenium.webdriver.common.by import By
from slow_store import slow_store

#: A trainer that takes elements as fast as it gets them, from a stage that takes 20 ms for each element.
SLOW_STAGE = """
import sys, time
import millstream as ms
def resize(x):
    time.sleep(0.02)
    return x
service = ms.service.distribute("distributed_epoch", sys.argv[1])
for _ in ms.Dataset.range(1_000_000).map_python(resize).apply(service):
    pass
"""

#: A trainer that reads JSON lines from a web server.
SLOW_STORAGE = """
import sys
import millstream as ms
service = ms.service.distribute("parallel_epochs", sys.argv[1])
spec = {"number": ms.TensorSpec((), "int64")}
for _ in ms.files.json_lines([sys.argv[2]], spec).apply(service):
    pass
"""

#: A program that registers datasets until the dispatcher cannot store them.
LARGE_DATASETS = """
import sys
import numpy as np
import millstream as ms
number = 0
while True:
    try:
        ms.service.register_dataset(sys.argv[1], ms.Dataset.from_tensor_slices(np.full((10, 20_000), number, np.uint8)))
    except ms.errors.MillstreamError:
        pass
    number = (number + 1) % 250
"""


def shot(page: Page, name: str) -> None:
    """Stores a picture of the sentence, if the user wants pictures."""
    if folder := os.environ.get("MILLSTREAM_SCREENSHOTS"):
        page.browser.find_element(By.ID, "verdict").screenshot(str(Path(folder) / f"{name}.png"))


def check(page: Page, name: str, level: str, *texts: str) -> None:
    """Waits until the sentence names a cause, and stores a picture."""
    page.expect("sentence", *texts)
    assert page.run("return document.getElementById('verdict').dataset.level") == level
    assert level == "good" or page.text("advice")
    shot(page, name)
    assert page.errors() == []


def test_a_slow_stage_is_named(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(service.page)
        service.add_worker("--python", sys.executable)
        service.add_trainer(SLOW_STAGE)
        check(page, "cause-slow-stage", "warning", "waits for data", "because stage map(python)", "keeps 1 of 1 workers busy")


def test_slow_storage_is_named(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service, slow_store() as url:
        page.open(service.page)
        service.add_worker()
        service.add_trainer(SLOW_STORAGE, url)
        check(page, "cause-slow-storage", "warning", "has waited", "for its first element, because 1 of 1 workers are busy")
        assert "storage" in page.text("advice")


def test_a_slow_trainer_is_named(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(service.page)
        service.add_worker()
        service.add_trainer()
        check(page, "cause-slow-trainer", "good", "No trainer waits for data", "The trainers set the speed.")


def test_a_dead_worker_is_named(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(service.page)
        killed, _ = service.add_worker(), service.add_worker()
        service.add_trainer()
        page.expect("sentence", "The trainers")
        service.workers[killed].kill()
        check(page, "cause-dead-worker", "warning", f"Worker {killed} is dead")


def test_a_full_disk_is_named(page: Page, tmp_path: Path) -> None:
    limits = ["sh", "-c", "trap '' XFSZ; ulimit -Sf 8192; exec \"$0\" \"$@\""]
    with Service(tmp_path, "--work-dir", "records", launcher=limits) as service:
        page.open(service.page)
        service.add_trainer(LARGE_DATASETS)
        check(page, "cause-full-disk", "fault", "The dispatcher cannot store its records")


def test_a_wrong_key_is_named(page: Page, tmp_path: Path) -> None:
    key = tmp_path / "other.key"
    subprocess.run([COMMAND, "key", "--generate", "--out", str(key)], check=True, capture_output=True)
    with Service(tmp_path) as service:
        page.open(service.page)
        service.add_stranger(str(key))
        check(page, "cause-wrong-key", "warning", "refused in the last minute for a wrong key")
