#!/bin/sh
# Undoes `make setup`: environment, link and build outputs; with PACKAGES=1 the Debian packages that it installed, too.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
. "$here/lib.sh"
. "$here/machine.sh"

# Packages go only when nothing else would go with them: what was built on them since is somebody's.
purge_packages() {
    ours=$(sed -n 's/^package //p' "$CHANGES" 2>/dev/null)
    [ -n "$ours" ] || return 0
    if [ "${1:-0}" != 1 ]; then
        say "$(printf '%s\n' "$ours" | wc -l) Debian packages stay (listed in $CHANGES): make clean PACKAGES=1 removes them"
        return 1
    fi
    refuse_production
    [ "$(id -u)" = 0 ] || die "only root can remove packages"
    still=$(for package in $ours; do [ -n "$(missing_packages "$package")" ] || printf '%s\n' "$package"; done)
    if [ -n "$still" ]; then
        going=$(apt-get -s purge --no-auto-remove $still 2>/dev/null | sed -nE 's/^(Purg|Remv) ([^ :]+).*/\2/p' | LC_ALL=C sort -u)
        others=$(printf '%s\n' "$going" | LC_ALL=C comm -23 - "$(sorted_file "$ours")" | tr '\n' ' ')
        [ -z "$others" ] || die "these packages were installed later and need ours: ${others}- nothing was removed"
        say "removing Debian packages: $(printf '%s ' $still)"
        logged apt-purge env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
            purge --no-auto-remove $still || die "the packages could not be removed"
    fi
}

sorted_file() {
    printf '%s\n' "$1" | LC_ALL=C sort -u >"$STATE/ours"
    printf '%s' "$STATE/ours"
}

locate "${here%/deploy/setup}"
cd "$ROOT" || exit 1
if [ -d "$STATE" ]; then
    own_dir "$STATE"
    locked_as "$0"
fi
if [ -L .venv ] && [ "$(readlink .venv)" = "$VENV" ]; then rm -f .venv; fi
if [ -d "$VENV" ]; then
    own_dir "$VENV"
    rm -rf "$VENV"
fi
# The Debians of other Slurm releases; nothing is mounted in them, since each run has namespaces of its own.
if [ -d "$ROOTS" ]; then
    own_dir "$ROOTS"
    rm -rf --one-file-system "$ROOTS"
fi
rm -rf build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
for folder in checks slurm daemon api deploy tests benchmarks; do
    [ ! -d "$folder" ] || find "$folder" -type d -name __pycache__ -prune -exec rm -rf {} +
done
say "removed the virtual environment, its link and build outputs"
if purge_packages "${PACKAGES_TOO:-0}"; then rm -rf "$STATE"; fi
