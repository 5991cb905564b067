#!/bin/sh
# Lambda's Python runtime as far as a function can tell: an interpreter without anything installed, the
# package's own folder, and the folder of what Lambda offers to every function.
export LAMBDA_RUNTIME_DIR="$PIXEL_GATHER_EMULATOR_RUNTIME"
export AWS_EXECUTION_ENV=AWS_Lambda_python3.13
python=$(readlink -f "$PIXEL_GATHER_EMULATOR_PYTHON") # a virtual environment's link finds its site-packages
exec "$python" -I -S "$LAMBDA_TASK_ROOT/emulated_runtime.py"
