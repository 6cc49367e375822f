#!/bin/sh
# Numba takes compiled code only from a directory that it may write to, and the image is read-only: so the kernels that
# were compiled at build time are copied, some megabytes, to where it may. Then the process is replaced: signals are its.
set -eu
if ! cp -R "$KERNELS/." "$NUMBA_CACHE_DIR"; then
    echo "stream-apple: expected a writable directory $NUMBA_CACHE_DIR: mount an emptyDir or a tmpfs there" >&2
    exit 78
fi
exec stream-apple "$@"
