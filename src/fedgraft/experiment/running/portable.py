"""Portable runs: torch, numpy and their libraries compute alike on every x86-64 processor with AVX2.

Each of them picks its kernels by the processor, and MKL by the maker too; kernels round differently. What stops that is
read from the environment while a library is loaded, so it must be there before, and worker processes inherit it.

Two things stay as they are. `torch.sqrt` of a tensor is MKL's, whose last bit differed between processors with every
setting. Data that a download or a library version changes are other data.
"""

import os
import platform
import shlex
import sys
from importlib import import_module

import torch

from fedgraft.contracts import RuntimeOptions
from fedgraft.errors import InputError

KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",  # AVX2 is for Intel's processors only: others then pick by themselves
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OMP_NUM_THREADS": "1",  # of the server; sums depend on threads, and these by default on cores
    "OPENBLAS_NUM_THREADS": "1",
}
"""Kernels of torch, MKL, oneDNN and of numpy's OpenBLAS; numpy's own are in `settings`."""
_MACHINES = ("x86_64", "AMD64")


def settings() -> dict[str, str]:
    """Return the environment of a portable run; what numpy offers by processor, by its version's names, is left out."""
    return {**KERNELS, "NPY_DISABLE_CPU_FEATURES": ",".join(import_module(_NUMPY).__cpu_dispatch__)}


def begin_again(options: RuntimeOptions) -> None:
    """Where a portable run lacks its environment, start this process's command line anew with it, the same process."""
    if options.portable and not _is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **settings()})


def check_machine(options: RuntimeOptions) -> None:
    """Raise `InputError` where this machine, or this process, lacks what a run is to have."""
    check(options)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("runtime.device = 'cuda', but torch sees no CUDA device here; use runtime.device=cpu.")


def check(options: RuntimeOptions) -> None:
    """Raise `InputError` where a run is to be portable and cannot be, on this machine or in this process."""
    if not options.portable:
        return
    if platform.machine() not in _MACHINES:
        raise InputError(
            f"runtime.portable = true is for x86-64 processors; this one is {platform.machine()!r}. Use "
            "runtime.portable=false."
        )
    features = import_module(_NUMPY)
    by_processor = any(features.__cpu_features__.get(name) for name in features.__cpu_dispatch__)
    capability = torch.backends.cpu.get_cpu_capability()
    if not _is_set() or by_processor or capability not in ("AVX2", "DEFAULT"):
        wanted = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings().items())
        raise InputError(
            "runtime.portable = true, but this process loaded torch and numpy without the environment that it needs. "
            "'fedgraft run' and 'resume' set it themselves, and so do the server and the nodes of a federation whose "
            f"recipe says so; start a script with {wanted}"
        )
    if capability == "DEFAULT":
        raise InputError("runtime.portable = true needs a processor with AVX2; use runtime.portable=false.")


def _is_set() -> bool:
    return all(os.environ.get(name) == value for name, value in settings().items())


_NUMPY = "numpy._core._multiarray_umath"
"""Where numpy says what kernels it has and which it uses; it has no public name for that."""
