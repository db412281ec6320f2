#!/bin/sh
# A stable rustdoc that writes JSON. What compiles the dependencies must not see the variable: their
# build scripts would run again, and all that depends on them would be compiled once more.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
