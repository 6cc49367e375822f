#!/bin/sh
# The image has kernels compiled for several types of processor. The best of them that this processor can run is named
# here, for Numba to take no other, unless NUMBA_CPU_NAME names one already. Numba takes compiled code only from a
# directory that it may write to, and the image is read-only: so it is copied, some megabytes, to where it may. Then the
# process is replaced: signals are its.
set -eu

# Whether this processor has each of these features.
has() {
    for feature in "$@"; do
        case " $features " in *" $feature "*) ;; *) return 1 ;; esac
    done
}

if [ -z "${NUMBA_CPU_NAME:-}" ]; then
    features=
    while read -r word rest; do
        if [ "$word" = flags ]; then features=${rest#: } && break; fi
    done <"${CPUINFO:-/proc/cpuinfo}"
    NUMBA_CPU_NAME=generic
    if has cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3; then
        NUMBA_CPU_NAME=x86-64-v2
        if has abm avx avx2 bmi1 bmi2 f16c fma movbe xsave; then
            NUMBA_CPU_NAME=x86-64-v3
            if has avx512f avx512bw avx512cd avx512dq avx512vl; then NUMBA_CPU_NAME=x86-64-v4; fi
        fi
    fi
    # An image that was built on a machine without AVX-512 has no kernels for it.
    if [ "$NUMBA_CPU_NAME" = x86-64-v4 ] && [ ! -d "$KERNELS/x86-64-v4" ] && [ -d "$KERNELS/x86-64-v3" ]; then
        NUMBA_CPU_NAME=x86-64-v3
    fi
fi
# No features besides those of the type: with them, code would be this processor's alone.
export NUMBA_CPU_NAME NUMBA_CPU_FEATURES="${NUMBA_CPU_FEATURES:-}"
compiled=$KERNELS/$NUMBA_CPU_NAME
if [ ! -d "$compiled" ]; then
    echo "stream-apple: no kernels for $NUMBA_CPU_NAME in this image: compiling takes up to a minute" >&2
elif ! cp -R "$compiled/." "$NUMBA_CACHE_DIR"; then
    echo "stream-apple: expected a writable directory $NUMBA_CACHE_DIR: mount an emptyDir or a tmpfs there" >&2
    exit 78
fi
exec stream-apple "$@"
