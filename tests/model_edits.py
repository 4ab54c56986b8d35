"""Edits that break a model of tests/smallest_models.py in one place, for tables of what must be refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gguf_bytes import U32, Gguf, Tensor

Edit = Callable[[Gguf], None]


def key(name: str, kind: int, value: object) -> Edit:
    return lambda model: model.keys.__setitem__(name, (kind, value))


def number(name: str, value: int) -> Edit:
    return key(name, U32, value)


def no_key(name: str) -> Edit:
    return lambda model: model.keys.__delitem__(name)


def no_tensor(name: str) -> Edit:
    return lambda model: model.tensors.__delitem__(name)


def shape(name: str, *ne: int) -> Edit:
    return lambda model: model.tensors.__setitem__(name, Tensor(ne, b"\0" * 4 * int(np.prod(ne))))


def in_type(name: str, kind: str, dtype: type) -> Edit:
    return lambda model: model.tensors.__setitem__(
        name, Tensor(model.tensors[name].ne, model.tensors[name].values().astype(dtype).tobytes(), kind)
    )


def values(name: str, value: float, first: int = 0, last: int | None = None) -> Edit:
    def edit(model: Gguf) -> None:
        data = model.tensors[name].values()
        data[first:last] = value
        model.tensors[name].data = data.tobytes()

    return edit


def copy(name: str, to: str) -> Edit:
    return lambda model: model.tensors.__setitem__(to, model.tensors[name])


def blocks(name: str) -> Edit:
    """The tensor as blocks of Q8_0, of the same length in bytes or more."""

    def edit(model: Gguf) -> None:
        ne = model.tensors[name].ne
        model.tensors[name] = Tensor((32, *ne[1:]), b"\0" * 34 * int(np.prod(ne[1:])), "q8_0")

    return edit


Row = tuple[str, Edit, str]  # what is broken, how, a part of the message


def rows(table: list[Row]) -> list[pytest.param]:
    return [pytest.param(edit, message, id=what) for what, edit, message in table]
