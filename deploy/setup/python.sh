# The virtual environment: Debian's Python, locked versions, outside the checkout so that every user can read it.

FOLDERS="checks slurm daemon api deploy"

pip_install() {
    logged pip env -u PYTHONPATH -u PYTHONHOME "$VENV/bin/python" -m pip --disable-pip-version-check --no-input install "$@"
}

# True when stamp $1 says $2: that step was done with exactly this.
done_with() { [ "$(cat "$VENV/.$1" 2>/dev/null)" = "$2" ]; }

mark_done() { printf '%s\n' "$2" >"$VENV/.$1"; }

ensure_venv() {
    [ -x "$PYTHON" ] || die "$PYTHON is missing"
    want="$("$PYTHON" -V) $(sha256sum <"$ROOT/deploy/setup/requirements.lock")"
    own_dir "$VENV"
    done_with locked "$want" && [ -x "$VENV/bin/python" ] && return 0
    remove_orphans
    say "making the virtual environment $VENV with $("$PYTHON" -V) (about 210 MB)"
    record "venv $VENV"
    logged venv "$PYTHON" -I -m venv --clear "$VENV" || die "no virtual environment"
    pip_install -r "$ROOT/deploy/setup/requirements.lock" || die "the locked packages could not be installed"
    mark_done locked "$want"
}

# Removes the environments of checkouts that are gone (a continuous integration leaves one each time); what was installed on the
# machine for them is remembered here.
remove_orphans() {
    for state in "$BASE"/nodevet-setup-*; do
        [ "$state" != "$STATE" ] && [ ! -L "$state" ] && [ -O "$state" ] || continue
        checkout=$(sed -n 's|^link \(.*\)/.venv$|\1|p' "$state/changes" 2>/dev/null | tail -n 1)
        [ -n "$checkout" ] && [ ! -e "$checkout" ] || continue
        orphan=$BASE/nodevet-venv-${state##*/nodevet-setup-}
        roots=$BASE/nodevet-roots-${state##*/nodevet-setup-}
        say "removing $orphan: its checkout $checkout is gone"
        grep -E '^(package|disabled) ' "$state/changes" | while IFS= read -r line; do record "$line"; done
        for gone in "$orphan" "$roots"; do
            if [ ! -L "$gone" ] && [ -O "$gone" ]; then rm -rf --one-file-system "$gone"; fi
        done
        rm -rf "$state"
    done
}

# True when every user can reach and read the checkout: only then can a worker that gave up root import from it. Compiled files
# do not count: a daemon with a strict umask leaves some that are its own, and others compile for themselves.
others_can_read() {
    dir=$ROOT
    while [ "$dir" != / ] && [ -n "$dir" ]; do
        [ -n "$(find "$dir" -prune -perm -001)" ] || return 1
        dir=$(dirname "$dir")
    done
    (cd "$ROOT" && [ -z "$(find $(present) -name __pycache__ -prune -o \( -type d ! -perm -005 -o -type f ! -perm -004 \) -print -quit)" ])
}

present() {
    for folder in $FOLDERS; do [ ! -d "$folder" ] || printf '%s ' "$folder"; done
}

sources() {
    (cd "$ROOT" && find $(present) pyproject.toml -type f ! -name '*.pyc' -exec sha256sum {} + | LC_ALL=C sort | sha256sum)
}

ensure_project() {
    if others_can_read; then
        how="editable $ROOT $(sha256sum <"$ROOT/pyproject.toml")"
        done_with project "$how" && return 0
        say "installing nodevet from the checkout (editable)"
        pip_install --no-deps --no-build-isolation --config-settings editable_mode=compat -e "$ROOT" || die "nodevet could not be installed"
    else
        how="copied $(sources)"
        done_with project "$how" && return 0
        say "other users cannot read $ROOT: installing a copy of nodevet; run make setup again after a change"
        install_copy || die "nodevet could not be installed"
    fi
    mark_done project "$how"
}

# Builds from a copy: setuptools would leave a build folder in the checkout, and install what an old one still holds.
install_copy() {
    copy=$(mktemp -d) || return 1
    (cd "$ROOT" && cp -R $(present) pyproject.toml README.md LICENSE "$copy") 2>/dev/null
    pip_install --no-deps --no-build-isolation --force-reinstall "$copy"
    status=$?
    rm -rf "$copy"
    return "$status"
}

# Torch is several hundred MB: it is installed for the tests in tests/torch, and only where there are any.
ensure_torch() {
    [ -d "$ROOT/tests/torch" ] || return 0
    if [ "${TORCH:-1}" = 0 ]; then
        say "torch is left out (TORCH=0), and so are the tests that need it"
        return 0
    fi
    want=$(sha256sum <"$ROOT/deploy/setup/torch.lock")
    done_with torch "$want" && return 0
    say "installing torch 2.13.0 for the torch tests: a 192 MB wheel, 754 MB on disk (the CPU build; an index may serve" \
        "the CUDA build of several GB instead). TORCH=0 leaves it out"
    pip_install -r "$ROOT/deploy/setup/torch.lock" || die "torch could not be installed; TORCH=0 leaves it out"
    mark_done torch "$want"
}

link_venv() {
    link=$ROOT/.venv
    if [ -L "$link" ]; then
        [ "$(readlink "$link")" != "$VENV" ] || return 0
        case "$(readlink "$link")" in
        */nodevet-venv-*) rm -f "$link" ;;
        *) die "$link leads to $(readlink "$link"), which is not ours: move it away" ;;
        esac
    elif [ -e "$link" ]; then
        die "$link is there and not ours: move it away"
    fi
    ln -s "$VENV" "$link"
    record "link $link"
}
