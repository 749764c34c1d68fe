"""Names of states: what users call them, checked, and how they are written in tables, pictures and file names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_integer

if TYPE_CHECKING:
    import pandas as pd

# Longer names do not fit into a legend.
LONGEST_NAME = 60


def default_names(n_states: int) -> list[str]:
    """Numbers of states as text: what they are called until somebody names them.

    Examples
    --------
    >>> default_names(3)
    ['0', '1', '2']
    """
    return [str(number) for number in range(n_states)]


def check_state_names(names: Any, n_states: int) -> list[str]:
    """Names of all states as a list of different words, one for every state.

    Examples
    --------
    >>> check_state_names(("helix", "coil"), 2)
    ['helix', 'coil']
    """
    listed = isinstance(names, Sequence | np.ndarray) and not isinstance(names, str | bytes)
    if not listed or len(names) != n_states or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"names={names!r:.60} must be {n_states} words, one for every state in their order")
    for number, name in enumerate(names):
        if not name.isprintable() or name != name.strip() or len(name) > LONGEST_NAME:
            raise InputError(
                f"names={name!r:.70} must be one line of at most {LONGEST_NAME} letters without spaces at its ends"
            )
        # A number stands for the state of that number wherever states are given by number or name.
        if name.isdecimal() and name != str(number):
            raise InputError(f"names={name!r:.60} of state {number} is a number; give it a word")
        if list(names).index(name) < number:
            raise InputError(f"names={name!r:.60} would be two states; give every state a name of its own")
    return [str(name) for name in names]


def names_or_none(names: Any, n_states: int) -> list[str] | None:
    """Names of states, checked; None if there are none, or if they are the numbers of the states.

    Examples
    --------
    >>> names_or_none(["helix", "1"], 2), names_or_none(["0", "1"], 2), names_or_none(None, 2)
    (['helix', '1'], None, None)
    """
    if names is None:
        return None
    checked = check_state_names(names, n_states)
    return None if checked == default_names(n_states) else checked


def renamed(names: Sequence[str], changes: Any) -> list[str]:
    """Names of all states, some of them changed; states are given by number or by the name that they had.

    Examples
    --------
    >>> renamed(["0", "1"], {1: "coil"}), renamed(["helix", "1"], {"helix": "alpha"})
    (['0', 'coil'], ['alpha', '1'])
    """
    if not isinstance(changes, Mapping):
        return check_state_names(changes, len(names))
    new, done = list(names), set()
    for state, name in changes.items():
        number = state_number(names, state)
        if number in done:
            raise InputError(f"names={changes!r:.60} has two names for state {number}; give it one")
        done.add(number)
        new[number] = name
    return check_state_names(new, len(names))


def state_number(names: Sequence[str], state: Any, what: str = "state") -> int:
    """Number of a state that is given by its number or its name.

    Examples
    --------
    >>> state_number(["helix", "coil"], "coil"), state_number(["helix", "coil"], 0)
    (1, 0)
    """
    if isinstance(state, str):
        if state not in names:
            raise InputError(f"{what}={state!r:.60}: there is no such state; they are called {', '.join(names):.200}")
        return list(names).index(state)
    number = check_integer(what, state, 0)
    if number >= len(names):
        raise InputError(f"{what}={number}: there is no such state; they are numbered 0 to {len(names) - 1}")
    return number


def joined_names(names: Sequence[str], groups: Sequence[Sequence[int]]) -> list[str]:
    """Names after states were merged: those of the members joined by a plus, or numbers where no member had a name.

    Examples
    --------
    >>> joined_names(["helix", "1", "2", "coil"], [[0, 3], [1, 2]])
    ['helix+coil', '1']
    """
    named = [any(names[state] != str(state) for state in group) for group in groups]
    joined = ["+".join(names[state] for state in group) for group in groups]
    return _different([text if known else "" for text, known in zip(joined, named, strict=True)])


def split_names(names: Sequence[str], state: int, n_parts: int) -> list[str]:
    """Names after a state was split: its name and a number from 1 on, if it had one.

    Examples
    --------
    >>> split_names(["helix", "1"], 0, 2), split_names(["helix", "1"], 1, 2)
    (['helix 1', '1', 'helix 2'], ['helix', '1', '2'])
    """
    known = names[state] != str(state)
    parts = [f"{names[state]} {part + 1}" if known else "" for part in range(n_parts)]
    kept = ["" if name == str(number) else name for number, name in enumerate(names)]
    return _different([*kept[:state], parts[0], *kept[state + 1 :], *parts[1:]])


def _different(wanted: Sequence[str]) -> list[str]:
    """Names as they are wanted, numbers where none is, none too long, and no name twice."""
    names: list[str] = []
    for number, name in enumerate(wanted):
        own, more = name[:LONGEST_NAME].strip() or str(number), 1
        while own in names or (own.isdecimal() and own != str(number)):
            more += 1
            own = f"{name[: LONGEST_NAME - 5]} ({more})"
        names.append(own)
    return names


def state_title(names: Sequence[str] | None, state: int) -> str:
    """How a state is called in a sentence: its name, or "state" and its number.

    Examples
    --------
    >>> state_title(["helix", "1"], 0), state_title(["helix", "1"], 1), state_title(None, 2)
    ('helix', 'state 1', 'state 2')
    """
    return f"state {state}" if names is None or names[state] == str(state) else names[state]


def state_file(names: Sequence[str], state: int) -> str:
    """Word for the name of a file about a state: its number and, if it has one, its name.

    Examples
    --------
    >>> state_file(["α helix/long", "1"], 0), state_file(["α helix/long", "1"], 1)
    ('0_α_helix_long', '1')
    """
    if names[state] == str(state):
        return str(state)
    plain = re.sub(r"[^\w+.-]+", "_", names[state]).strip("._")
    return f"{state}_{plain}" if plain else str(state)


def with_names(table: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    """Table of one row per state, in their order, with a first column of names if the states have any."""
    if names is not None and list(names) != default_names(len(names)):
        table.insert(0, "name", list(names))
    return table


def with_end_names(pairs: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    """Table of pairs of states with two first columns of names, if the states have any."""
    if names is None:
        return pairs
    for place, end in enumerate(("from", "to")):
        pairs.insert(place, f"{end} name", [names[i] for i in pairs.index.get_level_values(end)])
    return pairs
