"""Puts the shared library, built beforehand, into the wheel."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SharedLibrary(BuildHookInterface):
    def initialize(self, version, build_data):
        library = os.environ.get("REVSEQ_EP_LIBRARY")
        if not library:
            raise RuntimeError("REVSEQ_EP_LIBRARY is not set: build the wheel with build_wheel.py")
        name = "onnxruntime_ep_revseq/librevseq_ep.so"
        build_data["force_include"][library] = name
        # No Python of any version is linked; build_wheel.py narrows the platform.
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
