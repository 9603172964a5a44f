"""The C extension; the rest of the build is in pyproject.toml. Without a C compiler the package runs on torch alone."""

import sys

from setuptools import Extension, setup

# GCC and Clang: no floating-point traps, no errno, and a product and a sum may be rounded once.
FLAGS = [] if sys.platform == "win32" else ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]

setup(
    ext_modules=[
        Extension(
            "patchad._kernels._mixing",
            ["src/patchad/_kernels/csrc/mixing.c"],
            depends=["src/patchad/_kernels/csrc/mixing_kernels.h", "src/patchad/_kernels/csrc/distance_kernels.h"],
            extra_compile_args=FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            optional=True,
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
