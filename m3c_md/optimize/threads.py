"""One BLAS thread while numbers are made: sums then do not depend on how many threads there are."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class OneBlasThread:
    """Limit BLAS to one thread.

    The limit is one for the whole process. Where several tasks run at a time, or one inside another, the first sets it
    and the last lifts it; each on its own would lift it while another is at work.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_tasks = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_tasks == 0:
                self._limit = _blas().limit(limits=1)
            self._n_tasks += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_tasks -= 1
            if self._n_tasks == 0:
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = OneBlasThread()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    # To look for the loaded libraries takes as long as the work on a block; once is enough.
    return ThreadpoolController()
