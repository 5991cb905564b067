# Sourced by the other scripts: goes to the project's root and sets up what it needs, once.
# Needs Python, git and a shell. Leaves `uv` on PATH and the locked packages in .venv.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

if ! uv --version >/dev/null 2>&1; then
  if [ ! -x "$root/.uv/bin/uv" ]; then
    echo "setting up uv in .uv" >&2
    # From outside the project: .python-version would hide the very Python that is asked for here.
    (cd / && python3 -m venv "$root/.uv" && "$root/.uv/bin/python" -m pip install --quiet uv)
  fi
  export PATH="$root/.uv/bin:$PATH"
fi
uv sync --locked --quiet
