# Sourced by the scripts beside it: finds a Python, makes or reuses a virtual environment, installs what is asked for.
# The caller sets `root` (the repository) first. Afterwards `venv` is the environment and $venv/bin/python its Python.
# PYTHON, if set, names the only interpreter to use.
# shellcheck shell=sh disable=SC2154

say() {
    printf 'retrykit: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# is_python COMMAND [X.Y]: COMMAND runs, is at least 3.11, and is X.Y if that is given.
is_python() {
    "$1" -c '
import sys
have, want = sys.version_info[:2], sys.argv[1]
sys.exit(0 if have >= (3, 11) and want in ("", "%d.%d" % have) else 1)
' "${2:-}" </dev/null >/dev/null 2>&1
}

# candidates X.Y...: commands and paths that may be such a Python, one a line, best first.
candidates() {
    if [ -n "${PYTHON:-}" ]; then
        printf '%s\n' "$PYTHON"
        return
    fi
    for version in "$@"; do
        printf 'python%s\n' "$version"
        if has pyenv; then
            for path in "$(pyenv root)/versions/$version".*/bin/python; do
                printf '%s\n' "$path"
            done
        fi
    done
    printf 'python3\npython\n'
}

# find_python [X.Y]: prints the first candidate that fits and can make an environment; nothing if there is none.
find_python() {
    # shellcheck disable=SC2086 # split into words on purpose
    candidates ${1:-3.13 3.12 3.11} | while IFS= read -r candidate; do
        is_python "$candidate" "${1:-}" || continue
        if has uv || "$candidate" -c 'import ensurepip, venv' </dev/null >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)' </dev/null
            break
        fi
    done
}

# is_usable [X.Y]: $venv was not copied here from elsewhere, its Python fits, and something can install into it.
is_usable() {
    grep -qF -- "$venv" "$venv/bin/activate" 2>/dev/null &&
        is_python "$venv/bin/python" "${1:-}" &&
        { has uv || "$venv/bin/python" -m pip --version </dev/null >/dev/null 2>&1; }
}

# need_venv NAME [X.Y]: makes $root/NAME, or keeps it if it is usable. Sets venv.
need_venv() {
    venv=$root/$1
    if is_usable "${2:-}"; then
        return
    fi
    python=$(find_python "${2:-}")
    [ -n "$python" ] || fail "needs Python ${2:-3.11 or newer} with its venv module (or uv): install it, or set PYTHON to its path"
    say "making $1 with $("$python" -V)"
    rm -rf -- "$venv"
    if ! "$python" -m venv -- "$venv" >/dev/null 2>&1; then
        rm -rf -- "$venv"
        has uv || fail "$python cannot make $venv: install its venv module (python3-venv on Debian) or uv"
        uv venv --quiet --python "$python" -- "$venv"
    fi
}

# pip_install ARGUMENTS: with pip where the environment has it, else with uv.
pip_install() {
    if "$venv/bin/python" -m pip --version </dev/null >/dev/null 2>&1; then
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"
    else
        uv pip install --quiet --python "$venv/bin/python" "$@"
    fi
}

# group NAME: the requirements of a dependency group of pyproject.toml, one a line.
group() {
    "$venv/bin/python" -c '
import sys, tomllib
groups = tomllib.load(open(sys.argv[1], "rb"))["dependency-groups"]
def expand(name):
    for entry in groups[name]:
        if isinstance(entry, str):
            print(entry)
        else:
            expand(entry["include-group"])
expand(sys.argv[2])
' "$root/pyproject.toml" "$1"
}

# need_installed EXTRAS [GROUP]: retrykit, editable, with extras and a dependency group, at the pinned versions.
# Does nothing when pyproject.toml and the pins are as they were at the last time.
need_installed() {
    stamp=$venv/.installed-${2:-$1}
    wanted="$1 $(cd "$root" && cksum pyproject.toml requirements-test.txt)"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    say "installing what ${2:-$1} needs into ${venv#"$root"/}"
    : >"$venv/.requirements"
    if [ -n "${2:-}" ]; then
        group "$2" >"$venv/.requirements"
    fi
    pip_install --constraint "$root/requirements-test.txt" --requirement "$venv/.requirements" --editable "${root}[$1]"
    printf '%s\n' "$wanted" >"$stamp"
}
