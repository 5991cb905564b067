# Sourced by the other scripts, or by you from bash or zsh: goes to the project's root and sets up what it
# needs, once. Other shells: run it in the project's folder. Needs Python, git and a shell. Leaves the locked
# packages in .venv, and `uv` and `pixel-gather` on PATH.

# Which file is sourced, each shell tells in its own way, and some do not tell at all.
if [ -n "${BASH_SOURCE-}" ]; then
  root="$(cd "$(dirname "$BASH_SOURCE")/.." && pwd)"
elif [ -n "${ZSH_VERSION-}" ]; then
  eval 'root="${${(%):-%x}:A:h:h}"' # other shells cannot read this line
else
  root="$PWD"
fi
if [ ! -f "$root/scripts/setup.sh" ] || [ ! -f "$root/uv.lock" ]; then
  echo "setup.sh: $root is not Pixel Gather's folder: go there and source scripts/setup.sh again" >&2
  return 1 2>/dev/null || exit 1
fi
cd "$root"
unset PYTHONDONTWRITEBYTECODE # what is compiled once need not be compiled at every start of Python

if ! uv --version >/dev/null 2>&1; then
  if [ ! -x "$root/.uv/bin/uv" ]; then
    echo "setting up uv in .uv" >&2
    # From outside the project: .python-version would hide the very Python that is asked for here.
    (cd / && python3 -m venv "$root/.uv" && "$root/.uv/bin/python" -m pip install --quiet uv)
  fi
  export PATH="$root/.uv/bin:$PATH"
fi
export PATH="$root/.venv/bin:$PATH"
uv sync --locked --quiet
