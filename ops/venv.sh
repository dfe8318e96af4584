# Sourced by ops/run and ops/test: makes .venv in the project's root and installs Conch into it. `extras` names the extras; it may be empty.
# Needs only python3 >= 3.11. Done again only when pyproject.toml or the lock changed.

# Python's programs replace what an encoding of the terminal lacks, as conch does by itself.
export PYTHONIOENCODING="${PYTHONIOENCODING:-}"
PYTHONIOENCODING=${PYTHONIOENCODING%%:*}:replace

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "conch: Python 3.11 or newer is needed, as python3 on PATH" >&2
    exit 1
fi

venv=$root/.venv
stamp=$("$python" - "$root" <<'PY'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
digest = hashlib.sha256(sys.version.encode() + str(root).encode())
for name in ("pyproject.toml", "requirements.lock", "ops/requirements.py"):
    digest.update((root / name).read_bytes())
print(digest.hexdigest()[:16])
PY
)
wanted=$stamp-$(printf %s "$extras" | tr , -)

if [ ! -e "$venv/.conch-$wanted" ]; then
    echo "conch: setting up $venv, once: some 50 packages are installed, which takes half a minute to two minutes" >&2
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        rm -rf "$venv"
        if "$python" -m venv "$venv" 2>/dev/null; then
            :
        elif "$python" -m pip --version >/dev/null 2>&1; then
            # Debian's python3 without python3-venv lacks ensurepip: the system's pip fills the environment instead.
            rm -rf "$venv"
            "$python" -m venv --without-pip "$venv"
        elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            rm -rf "$venv"
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; } >&2
            "$python" -m venv "$venv"
        else
            rm -rf "$venv"
            echo "conch: $python has neither ensurepip nor pip: install your system's package python3-venv or python3-pip" >&2
            exit 1
        fi
    fi
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        set_up() { "$venv/bin/python" -m pip "$@"; }
    else
        set_up() { "$python" -m pip --python "$venv/bin/python" "$@"; }
    fi
    quiet=--quiet
    if [ -t 2 ]; then quiet=; fi # somebody looks: pip shows what it is at
    # First what the lock holds for these extras, each file by its hash, then the project: of what the lock does not hold, such
    # as the libraries beside a build of torch for graphics cards, pip takes any version that fits.
    locked() {
        set_up install $quiet --disable-pip-version-check --only-binary uvloop --require-hashes --no-deps "$@"
    }
    installed() {
        # shellcheck disable=SC2046  # a list of names
        "$python" "$root/ops/requirements.py" $(printf %s "$1" | tr , ' ') >"$venv/.conch-requirements" || return
        # The index has torch for graphics cards alone, 3 GB: a build for processors in a directory that pip is told of
        # (find-links) is taken first, by its hash too.
        sed -n '/^torch==/,/[^\\]$/p' "$venv/.conch-requirements" >"$venv/.conch-torch"
        [ ! -s "$venv/.conch-torch" ] || locked --no-index -r "$venv/.conch-torch" >/dev/null 2>&1 || true
        locked -r "$venv/.conch-requirements" >&2 &&
            set_up install $quiet --disable-pip-version-check --no-build-isolation -e "$root${1:+[$1]}" >&2
    }
    # The extra `fast` where it has a wheel: without it everything runs, and no compiler is asked for.
    installed "${extras:+$extras,}fast" || installed "$extras"
    # An editable install is compiled when first imported, which a first start would wait for.
    "$venv/bin/python" -m compileall -q "$root/conch" "$root/services" "$root/schemas" >/dev/null || true
    for old in "$venv"/.conch-*; do # of another pyproject.toml; what other extras installed stays
        case $old in "$venv/.conch-$stamp-"*) ;; *) rm -f "$old" ;; esac
    done
    : >"$venv/.conch-$wanted"
fi
