"""Files that `torch.load` reads, written without torch: counts as a dict, and one-dimensional arrays as tensors.

The format is torch's zip of a pickle and raw storages, as `torch.save` has written it since 1.6
(torch/serialization.py). The pickle names only what `torch.load(weights_only=True)` allows.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

STORAGES = {np.dtype(np.int64): "LongStorage", np.dtype(np.bool_): "BoolStorage"}
TIME = (1980, 1, 1, 0, 0, 0)  # always the same, so that equal content is an equal file


def write_counts(path: Path, counts: Mapping[int, int]) -> None:
    """Write a plain dict, id to count, in its order."""
    _write(path, pickle.dumps(dict(counts), protocol=2), [])


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[np.int64] | npt.NDArray[np.bool_]]) -> None:
    """Write a dict of contiguous tensors, each of the shape (length,) and of int64 or bool."""
    pickled = BytesIO(b"\x80\x02}(")  # protocol 2, an empty dict, a mark
    pickled.seek(0, 2)
    for number, (name, array) in enumerate(arrays.items()):
        pickled.write(_text(name) + _tensor(str(number), array.size, STORAGES[array.dtype]))
    pickled.write(b"u.")  # set the items, stop
    _write(path, pickled.getvalue(), [np.ascontiguousarray(array).tobytes() for array in arrays.values()])


def _tensor(key: str, length: int, storage: str) -> bytes:
    """Opcodes of torch._utils._rebuild_tensor_v2(storage, offset 0, (length,), stride (1,), no gradient, no hooks)."""
    where = (
        b"(" + _text("storage") + f"ctorch\n{storage}\n".encode() + _text(key) + _text("cpu") + _number(length) + b"tQ"
    )
    shape = b"K\x00" + _number(length) + b"\x85" + b"K\x01\x85" + b"\x89" + b"ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + where + shape + b"tR"


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def _number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def _write(path: Path, pickled: bytes, storages: list[bytes]) -> None:
    members = {"data.pkl": pickled, "byteorder": b"little"}
    members |= {f"data/{number}": data for number, data in enumerate(storages)}
    members["version"] = b"3\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", TIME), data)
