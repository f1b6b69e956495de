"""Claims: held by one process at a time, freed by the kernel, and without a trace afterwards."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mqlearn.storage import locks

HOLD = """
import sys, time
from pathlib import Path
from mqlearn.storage import locks
with locks.claimed(Path(sys.argv[1]), "cell", "a"):
    print("held", flush=True)
    time.sleep(100)
"""


def test_one_at_a_time_holds_a_claim_and_no_file_stays(tmp_path):
    inside, most, lock = [0], [0], threading.Lock()

    def work(number: int) -> None:
        for _ in range(50):
            with locks.claimed(tmp_path, "cell", "a"):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with lock:
                    inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert most == [1]
    assert list(tmp_path.iterdir()) == []


def test_other_names_are_other_claims(tmp_path):
    with locks.claimed(tmp_path, "cell", "a") as waited, locks.at_once(tmp_path, "cell", "b") as held:
        assert (waited, held) == (False, True)
        assert locks.is_claimed(tmp_path, "cell", "a") and not locks.is_claimed(tmp_path, "cell", "c")
        with locks.at_once(tmp_path, "cell", "a") as again:
            assert not again
    assert not locks.is_claimed(tmp_path, "cell", "a")


def test_several_claims_are_taken_in_one_order_by_all(tmp_path):
    names = [("cell", str(i)) for i in range(5)]

    def work(number: int) -> None:
        for _ in range(20):
            with locks.many(tmp_path, names[number:] + names[:number]):
                pass

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5), timeout=60))
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_lets_go_of_its_claim(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    assert locks.is_claimed(tmp_path, "cell", "a")
    process.kill()
    process.communicate()
    with locks.claimed(tmp_path, "cell", "a") as waited:
        assert not waited
    assert list(tmp_path.iterdir()) == []


def test_folders_of_claims_are_told_apart_by_what_is_in_them(tmp_path):
    first, second = locks.identity(tmp_path / "a"), locks.identity(tmp_path / "b")
    assert first and first != second and locks.identity(tmp_path / "a") == first
    (tmp_path / "a").rename(tmp_path / "c")
    assert locks.identity(tmp_path / "c") == first and locks.identity(tmp_path / "a") not in (first, second)
