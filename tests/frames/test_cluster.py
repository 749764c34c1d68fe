"""Blocks on the workers of a Dask cluster: the same bits as in one process, also when a worker dies."""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_info

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

from m3c_md import M3C, MMC
from m3c_md.exceptions import InputError
from m3c_md.frames import cluster as cluster_module
from m3c_md.frames import source as source_module
from m3c_md.frames.cluster import ClusterSource, current_client, spread
from m3c_md.frames.source import LocalSource, SourceBlocks, sample_windows, whole_block
from m3c_md.frames.windows import equally_spaced
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import draw_fourier_map
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.search import polish as polish_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search.polish import look_at
from tests.conftest import hidden_markov_wells


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "120s", "distributed.comm.timeouts.tcp": "120s"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", scheduler_kwargs={"dashboard": False}
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="class")
def small_blocks():
    """Blocks of 300 windows, five of them on a store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module.plan_blocks, "__defaults__", (300,))
        patch.setattr(cluster_module, "BYTES_PER_STORE", 5 * 300 * 16)
        patch.setattr(cluster_module, "TASKS_PER_THREAD", 1)
        yield patch


@pytest.fixture(scope="class")
def streamed(small_blocks):
    """Fits of a few thousand frames take the way of large data."""
    small_blocks.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
    small_blocks.setattr("m3c_md.clustering.margin_search.SEARCHED", 1500)
    small_blocks.setattr(rungs_module, "RUNGS", ((500, 4), (1000, 2)))


@pytest.fixture(scope="class")
def expected(streamed, trajectories):
    """Model of a fit in this process."""
    return quick().fit_fetch(trajectories)


@pytest.fixture(scope="module")
def trajectories():
    """Three of different lengths, types and layouts; the last are shorter than a block."""
    frames = hidden_markov_wells(4000, 3).frames
    parts = np.split(frames, [2100, 3900, 3960])
    return [parts[0], np.asfortranarray(parts[1].astype(np.float32)), parts[2], parts[3]]


def quick(**changes):
    return M3C(3, n_features=30, **{"bandwidth": 1.0, "starts": ("kinetic",), "random_state": 3, **changes})


def as_dask(trajectories, rows=700):
    """Dask arrays whose chunks have nothing to do with our blocks."""
    return [da.from_array(np.ascontiguousarray(x), chunks=(rows, 1)) for x in trajectories]


def ratios_of(block, factor):
    return (factor * np.exp(3.0 * block.frames[block.windows[0], 0])).astype(np.float32)


def assert_same(result, expected):
    """Equal to the last bit: arrays, numbers, and objects that hold them."""
    if isinstance(expected, list | tuple):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "__dataclass_fields__"):
        for name in expected.__dataclass_fields__:
            assert_same(getattr(result, name), getattr(expected, name))
    else:
        np.testing.assert_array_equal(result, expected, strict=isinstance(expected, np.ndarray))


def assert_same_model(model, expected, frames):
    assert model.objective == expected.objective
    np.testing.assert_array_equal(model.decision_function(frames), expected.decision_function(frames))
    np.testing.assert_array_equal(model.populations, expected.populations)
    assert model.candidates.equals(expected.candidates)
    assert model.visits.equals(expected.visits)
    assert model.warnings == expected.warnings


def assert_forgotten(client):
    """The client holds no data on the workers; it lets go of them in a thread of its own."""
    end = time.monotonic() + 30.0
    while client.futures and time.monotonic() < end:
        gc.collect()  # an error keeps what it was about
        time.sleep(0.02)
    assert not client.futures


def killing_once(marker, function, number, block, *arguments):
    """Run a function of blocks, but kill the worker that first comes to the block of this number."""
    if block.first_window == 300 * number and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(block, *arguments)


@pytest.mark.usefixtures("small_blocks")
class TestSource:
    @pytest.mark.parametrize(("lagtime", "n_slices"), [(1, 2), (40, 3), (1, 1)])
    @pytest.mark.parametrize("kind", [list, as_dask])
    def test_blocks_are_those_of_one_process(self, client, trajectories, kind, lagtime, n_slices):
        local = LocalSource(trajectories, lagtime, n_slices)
        source = spread(client, kind(trajectories), lagtime, n_slices)
        assert_same(list(source.map(whole_block)), list(local.map(whole_block)))
        assert (source.n_windows, source.n_frames, source.horizon) == (local.n_windows, local.n_frames, local.horizon)
        chosen = np.arange(0, local.n_windows, 11)
        np.testing.assert_array_equal(source.first_frames(chosen), local.first_frames(chosen))

    def test_looks_and_samples_have_the_same_bits(self, client, trajectories):
        rng = np.random.default_rng(0)
        feature_map = draw_fourier_map(2, 50, rng)
        rule = Rule(rng.normal(size=(3, 50)), rng.normal(size=3))
        local, source = LocalSource(trajectories, 2), spread(client, trajectories, 2)
        for function, *arguments in (
            (look_at, feature_map, rule, 0.1, np.zeros(3)),
            (source_module.sampled, equally_spaced(local.n_windows, 500)),
        ):
            assert_same(list(source.map(function, *arguments)), list(local.map(function, *arguments)))
        assert_same(list(SourceBlocks(source, feature_map)), list(SourceBlocks(local, feature_map)))

    def test_weights_have_the_same_bits_and_can_be_replaced(self, client, trajectories):
        local, source = (
            one.weighted(ratios_of, 5.0) for one in (LocalSource(trajectories, 1), spread(client, trajectories, 1))
        )
        weights = np.concatenate([block.weights for block in local.map(whole_block)])
        assert weights.max() > 10.0 * weights.min()
        assert_same(list(source.map(whole_block)), list(local.map(whole_block)))
        assert_same(
            list(source.weighted(ratios_of, -1.0).map(whole_block)),
            list(local.weighted(ratios_of, -1.0).map(whole_block)),
        )

    def test_what_a_dead_worker_had_is_made_again(self, client, trajectories, tmp_path):
        source = spread(client, as_dask(trajectories), 1).weighted(ratios_of, 5.0)
        expected = LocalSource(trajectories, 1).weighted(ratios_of, 5.0).map(whole_block)
        assert_same(list(source.map(partial(killing_once, tmp_path / "killed", whole_block, 4))), list(expected))
        assert (tmp_path / "killed").exists()
        client.wait_for_workers(2, timeout=120)

    def test_nothing_is_left_behind(self, client, trajectories):
        source = spread(client, as_dask(trajectories), 1).weighted(ratios_of, 1.0)
        results = source.map(whole_block)
        next(results)  # and no more: a pass may be broken off
        results.close()
        del source, results
        assert_forgotten(client)

    def test_tasks_are_few_and_small(self, client, trajectories, monkeypatch):
        n_blocks = len(LocalSource(trajectories, 1).plan)
        assert n_blocks == 14

        def n_stores():
            return len(spread(client, trajectories, 1)._stores)

        assert n_stores() == 3  # five blocks or fewer in each
        monkeypatch.setattr(cluster_module, "TASKS_PER_THREAD", 3)
        assert n_stores() == 7  # two threads
        monkeypatch.setattr(cluster_module, "BYTES_PER_TASK", 1000)
        assert n_stores() == n_blocks
        monkeypatch.setattr(cluster_module, "TASKS_PER_THREAD", 1)
        assert len(spread(client, as_dask(trajectories), 1)._stores) == 3  # nothing to send

    @pytest.mark.parametrize("kind", [list, as_dask])
    def test_a_frame_that_is_no_number_is_named(self, client, trajectories, kind):
        bad = [x.copy() for x in trajectories]
        bad[0][2050] = np.inf
        bad[1][[13, 700], 1] = np.nan
        with pytest.raises(InputError, match="trajectory 0 holds inf at frame 2050, column 0; remove or repair"):
            sample_windows(spread(client, kind(bad), 1), np.arange(5))

    def test_other_errors_come_as_they_are_and_leave_nothing_behind(self, client, trajectories):
        with pytest.raises(ZeroDivisionError, match="division") as caught:
            list(spread(client, trajectories, 1).map(lambda block: 1 // 0))
        assert "1 // 0" in "".join(traceback.format_exception(caught.value))
        del caught
        assert_forgotten(client)


@pytest.mark.usefixtures("streamed")
class TestFit:
    @pytest.mark.parametrize("kind", [list, as_dask])
    def test_a_fit_on_a_cluster_is_the_fit_in_one_process(self, client, trajectories, expected, kind):
        model = quick().fit_fetch(kind(trajectories), client=client)
        assert_same_model(model, expected, np.concatenate(trajectories))
        assert_forgotten(client)

    def test_other_processes_are_sent_the_sample_only(self, client, trajectories, expected, monkeypatch):
        monkeypatch.setattr(ClusterSource, "__reduce__", lambda source: pytest.fail("all data travel"), raising=False)
        model = quick(n_jobs=2).fit_fetch(trajectories, client=client)
        assert_same_model(model, expected, np.concatenate(trajectories))

    def test_states_come_at_once(self, client, trajectories, expected):
        for labels, array in zip(quick().fit_transform(trajectories, client=client), trajectories, strict=True):
            np.testing.assert_array_equal(labels, expected.transform(array))

    def test_single_frames(self, client, trajectories):
        estimator = MMC(3, bandwidth=1.0, n_features=30, starts="kmeans", random_state=0)
        expected = estimator.fit_fetch(trajectories)
        assert_same_model(estimator.fit_fetch(trajectories, client=client), expected, np.concatenate(trajectories))

    def test_without_a_client_dask_arrays_are_read_slice_by_slice(self, trajectories, expected):
        lazy = as_dask(trajectories)
        assert current_client(lazy) is None
        model = quick().fit_fetch(lazy)
        assert_same_model(model, expected, np.concatenate(trajectories))
        for labels, array in zip(model.transform(lazy), trajectories, strict=True):
            np.testing.assert_array_equal(labels, model.transform(array))
        np.testing.assert_array_equal(model.transform(lazy[0]), model.transform(trajectories[0]))

    def test_dask_arrays_find_the_current_client(self, client, trajectories, expected, monkeypatch):
        used = []
        monkeypatch.setattr(
            "m3c_md.clustering.margin_search.spread", lambda *arguments: used.append(arguments[0]) or spread(*arguments)
        )
        lazy = as_dask(trajectories)
        with client.as_current():
            model = quick().fit_fetch(lazy)
            assert current_client(trajectories) is None
            labels = model.transform(lazy)
        assert used == [client]
        assert_same_model(model, expected, np.concatenate(trajectories))
        np.testing.assert_array_equal(np.concatenate(labels), np.concatenate(model.transform(trajectories)))

    def test_weights_towards_the_relaxed_distribution(self, client):
        """Trajectories that roll down a slope first, so that their frames do not weigh the same."""
        rng = np.random.default_rng(0)
        slopes = [np.linspace(6.0 * side, side, 30) for side in (-1.0, 1.0)]
        stays = [np.repeat(rng.choice([-1.0, 1.0], size=3), 12) for _ in range(60)]
        trajectories = [
            (np.concatenate([slopes[i % 2], stay]) + 0.2 * rng.normal(size=66))[:, None] for i, stay in enumerate(stays)
        ]
        estimator = M3C(2, starts="kinetic", random_state=0)
        expected = estimator.fit_fetch(trajectories)
        assert expected.effective_sample < 0.98
        assert_same_model(estimator.fit_fetch(trajectories, client=client), expected, np.concatenate(trajectories))

    def test_a_gap_that_takes_all_windows(self, client, monkeypatch):
        monkeypatch.setattr(polish_module, "MAX_LOOKS", 1)
        frames = hidden_markov_wells(1200, 3).frames
        expected = quick(gap=1e-5).fit_fetch(frames)
        assert expected.gap <= 1e-5
        assert_same_model(quick(gap=1e-5).fit_fetch(frames, client=client), expected, frames)

    def test_a_worker_that_dies_does_no_harm(self, client, trajectories, expected, monkeypatch, tmp_path):
        monkeypatch.setattr(polish_module, "look_at", partial(killing_once, tmp_path / "killed", look_at, 7))
        assert_same_model(quick().fit_fetch(trajectories, client=client), expected, np.concatenate(trajectories))
        assert (tmp_path / "killed").exists()
        client.wait_for_workers(2, timeout=120)


class TestSmallData:
    def test_few_frames_need_no_cluster(self, client, monkeypatch):
        monkeypatch.setattr("m3c_md.clustering.margin_search.spread", None)
        frames = hidden_markov_wells(400, 3).frames
        expected = quick().fit_fetch(frames)
        for data in (frames, da.from_array(frames, chunks=(90, 2))):
            assert_same_model(quick().fit_fetch(data, client=client), expected, frames)

    def test_pairs_need_no_cluster(self, client):
        frames = hidden_markov_wells(700, 3).frames
        pair = (frames[:-1], frames[1:])
        assert_same_model(quick().fit_fetch(pair, client=client), quick().fit_fetch(pair), frames)


class TestBadInput:
    @pytest.mark.parametrize("client", [0, "tcp://127.0.0.1:8786", Client])
    def test_a_client_that_is_none(self, client):
        with pytest.raises(
            InputError, match=r"client=.* has no methods submit, map and gather; give a dask.distributed"
        ):
            quick().fit(hidden_markov_wells(400, 3).frames, client=client)

    def test_a_client_that_does_not_wait(self, client, monkeypatch):
        monkeypatch.setattr(type(client), "asynchronous", True)
        with pytest.raises(InputError, match="is asynchronous, and fit waits; make it with asynchronous=False"):
            quick().fit(hidden_markov_wells(400, 3).frames, client=client)

    def test_dask_arrays_of_unknown_length(self):
        lazy = da.from_array(np.zeros((100, 2)), chunks=(10, 2))
        with pytest.raises(
            InputError, match=r"trajectory 1 is a Dask array of shape \(nan, 2\); call its method compute"
        ):
            quick().fit([lazy, lazy[lazy[:, 0] > 0.5]])

    @pytest.mark.usefixtures("streamed")
    def test_frames_that_are_no_numbers_are_named(self, client, trajectories):
        bad = [x.copy() for x in trajectories]
        bad[1][1717, 1] = np.nan
        with pytest.raises(InputError, match="trajectory 1 holds nan at frame 1717, column 1"):
            quick().fit(bad, client=client)


def test_the_limit_of_blas_is_lifted_by_the_last():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    with ONE_BLAS_THREAD:
        with ONE_BLAS_THREAD:
            assert set(threads()) <= {1}
        assert set(threads()) <= {1}
    assert threads() == before


def test_candidates_go_through_the_dask_backend_of_joblib(client):
    frames = hidden_markov_wells(900, 3, seed=5).frames
    expected = quick(bandwidth=(0.5, 1.0, 2.0)).fit_fetch(frames)
    with client.as_current(), parallel_config(backend="dask"):
        model = quick(bandwidth=(0.5, 1.0, 2.0), n_jobs=2).fit_fetch(frames)
    assert_same_model(model, expected, frames)
