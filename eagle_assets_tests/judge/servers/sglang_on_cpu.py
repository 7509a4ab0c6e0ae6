"""SGLang's own server on the CPU: sglang_on_cpu.py, with the arguments of `sglang.launch_server`.

Its packages for the CPU are not on the index of the Python packages: `sglang-kernel`, torchvision and torchaudio there
are CUDA builds that do not load beside a CPU torch. SGLang imports them and, on a CPU without AMX, computes in plain
torch: so here stand modules from which anything can be imported, and nothing can be used.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from transformers.utils import import_utils


class Absent(ModuleType):
    """A module from which any name can be imported; what is called raises NotImplementedError."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def absent(*_: object, **__: object) -> NoReturn:
            raise NotImplementedError(f"{self.__name__}.{name} is not on this machine")

        absent.BICUBIC = None  # type: ignore[attr-defined]  # a default argument's value in sglang.srt.configs
        return absent


ABSENT = (
    "sgl_kernel",
    "torchaudio",
    "torchaudio.functional",
    "torchvision",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)

# Not under __main__: each process that SGLang spawns runs this module first.
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
assert not import_utils.is_torchvision_available()  # which it remembers, and so never asks the stand-in
sys.modules.update({name: Absent(name) for name in ABSENT})

if __name__ == "__main__":
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args

    run_server(prepare_server_args(sys.argv[1:]))
