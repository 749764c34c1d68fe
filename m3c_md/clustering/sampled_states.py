"""Frames to look at: deep inside the states of a model, and on their way between two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_choice, check_integer, check_random_state
from m3c_md.inputs.state_names import state_number


class SampledStates:
    """States of which frames can be chosen."""

    state_names: list[str]

    def sample(
        self, data: Any, n: int, *, by: Literal["margin", "random"] = "margin", random_state: Any = None
    ) -> list[NDArray[np.intp]]:
        """Representative frames of every state.

        Parameters
        ----------
        data : array or list of arrays
            Trajectories to choose from.
        n : int
            Frames per state; fewer if a state has fewer.
        by : "margin" or "random"
            The frames deepest inside a state, deepest first, or frames drawn at random without repetition.
        random_state : None, int or numpy.random.Generator
            For ``by="random"``.

        Returns
        -------
        list of (m, 2) arrays
            For every state (trajectory, frame) indices, as deeptime's sampling functions return them.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(1000, 1))
        >>> [s.shape for s in M3C(2, random_state=0).fit_fetch(x).sample(x, 3)]
        [(3, 2), (3, 2)]
        """
        check_integer("n", n, 1)
        check_choice("by", by, ("margin", "random"))
        check_random_state(random_state)
        dataset = self._dataset(data)
        states = np.concatenate(self._of_trajectories(dataset, self._labels))
        where = np.concatenate([np.column_stack([np.full(n, i), np.arange(n)]) for i, n in enumerate(dataset.lengths)])
        if by == "margin":
            order = np.argsort(-np.concatenate(self._of_trajectories(dataset, self._leads)), kind="stable")
        else:
            order = check_random_state(random_state).permutation(len(states))
        return [where[order[states[order] == state][:n]] for state in range(len(self.state_names))]

    def transition_frames(self, data: Any, source: Any, target: Any, n: int = 10) -> NDArray[np.intp]:
        """Frames at the border between two states, where trajectories crossed it.

        Of every crossing, in either direction, it is the frame before or the frame after it, whichever has the smaller
        margin: a frame from which both states are about as near. A crossing that takes less than the time between two
        frames leaves none such behind; its margin is then large, and it comes last.

        Parameters
        ----------
        data : array or list of arrays
            Trajectories to choose from.
        source, target : int or str
            The two states, by number or name.
        n : int
            Number of frames; fewer if the border was crossed less often.

        Returns
        -------
        (m, 2) array
            (trajectory, frame) indices as those of `sample`, the smallest margin first.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.tanh(5.0 * np.sin(np.arange(1500) * np.pi / 30.0))  # from -1 to 1, through 0 every 30 frames
        >>> model = M3C(2, bandwidth=1.0, starts=("kinetic",), random_state=0).fit_fetch(x)
        >>> frames = model.transition_frames(x, 0, 1, n=8)
        >>> len(frames), bool((np.abs(x[frames[:, 1]]) < 0.6).all())
        (8, True)
        """
        first, second = (state_number(self.state_names, state, "state") for state in (source, target))
        n = check_integer("n", n, 1)
        if first == second:
            raise InputError(f"source and target are both {source!r:.40}; name two states")
        depths = self._of_trajectories(self._dataset(data), self._depths)
        found = [crossings(x["state"], x["lead"], first, second) for x in depths]
        where = np.concatenate([np.column_stack([np.full(len(x), i), x]) for i, x in enumerate(found)])
        leads = np.concatenate([x["lead"][frames] for x, frames in zip(depths, found, strict=True)])
        return np.asarray(where[np.argsort(leads, kind="stable")[:n]], dtype=np.intp)

    def _dataset(self, data: Any) -> Dataset:
        """Data with the columns of the fit."""
        raise NotImplementedError

    def _of_trajectories(
        self, dataset: Dataset, function: Callable[[FloatArray], NDArray[Any]], before: int = 0
    ) -> list[NDArray[Any]]:
        """Function of the frames of each trajectory."""
        raise NotImplementedError

    def _labels(self, frames: FloatArray) -> NDArray[np.int32]:
        """State of some frames."""
        raise NotImplementedError

    def _leads(self, frames: FloatArray) -> FloatArray:
        """Lead of the largest score over the second largest."""
        raise NotImplementedError

    def _depths(self, frames: FloatArray) -> NDArray[Any]:
        """State of some frames and how deep they are inside."""
        raise NotImplementedError


def crossings(states: NDArray[np.integer], leads: FloatArray, first: int, second: int) -> NDArray[np.intp]:
    """Frame nearest to the border of every crossing between two states; a frame between two crossings counts once.

    Examples
    --------
    >>> crossings(np.array([0, 0, 1, 1, 2, 0]), np.array([1.0, 0.1, 0.4, 1.0, 0.1, 0.2]), 0, 1).tolist()
    [1]
    """
    before, after = states[:-1], states[1:]
    here = np.flatnonzero(((before == first) & (after == second)) | ((before == second) & (after == first)))
    return np.unique(np.where(leads[here] <= leads[here + 1], here, here + 1))
