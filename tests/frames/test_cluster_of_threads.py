"""A cluster whose workers are threads of this process: the same bits again, and all of its code within sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

from distributed import Client

from m3c_md.exceptions import InputError
from m3c_md.frames.cluster import spread
from m3c_md.frames.source import LocalSource, sample_windows, whole_block
from tests.frames.test_cluster import (  # noqa: F401
    as_dask,
    assert_same,
    assert_same_model,
    expected,
    quick,
    ratios_of,
    small_blocks,
    streamed,
    trajectories,
)

KINDS: list[Callable[[Any], Any]] = [list, as_dask]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None, set_as_default=False
    ) as client:
        yield client


@pytest.mark.usefixtures("small_blocks")
class TestSource:
    @pytest.mark.parametrize("kind", KINDS)
    def test_blocks_and_weights(self, client: Any, trajectories: Any, kind: Any) -> None:  # noqa: F811
        local, source = LocalSource(trajectories, 2), spread(client, kind(trajectories), 2)
        assert_same(list(source.map(whole_block)), list(local.map(whole_block)))
        weighted = source.weighted(ratios_of, 5.0), local.weighted(ratios_of, 5.0)
        assert_same(*(list(one.map(whole_block)) for one in weighted))

    def test_ratios_that_say_nothing(self, client: Any, trajectories: Any) -> None:  # noqa: F811
        """Windows count alike where all ratios vanish, on a cluster as elsewhere."""
        sources = [
            one.weighted(ratios_of, 0.0) for one in (LocalSource(trajectories, 1), spread(client, trajectories, 1))
        ]
        local, source = (np.concatenate([block.weights for block in one.map(whole_block)]) for one in sources)
        np.testing.assert_array_equal(local, source)
        np.testing.assert_allclose(local, 1.0 / len(local), rtol=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_frame_that_is_no_number_is_named(self, client: Any, trajectories: Any, kind: Any) -> None:  # noqa: F811
        bad = [x.copy() for x in trajectories]
        bad[0][2050] = np.inf
        with pytest.raises(InputError, match="trajectory 0 holds inf at frame 2050, column 0; remove or repair"):
            sample_windows(spread(client, kind(bad), 1), np.arange(5))


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit(client: Any, trajectories: Any, expected: Any, kind: Any) -> None:  # noqa: F811
    model = quick().fit_fetch(kind(trajectories), client=client)
    assert_same_model(model, expected, np.concatenate(trajectories))
