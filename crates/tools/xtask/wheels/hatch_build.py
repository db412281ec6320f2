"""Puts prebuilt files into a wheel: REVSEQ_WHEEL has them as Hatch's build data."""

import json
import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Built(BuildHookInterface):
    def initialize(self, version, build_data):
        built = os.environ.get("REVSEQ_WHEEL")
        if not built:
            raise RuntimeError("REVSEQ_WHEEL is not set: build the wheel with `cargo xtask wheel`")
        for name, value in json.loads(built).items():
            build_data[name] = value
        build_data["pure_python"] = False
