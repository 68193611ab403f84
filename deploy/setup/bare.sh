#!/bin/sh
# The honest proof: makes a bare Debian 12 below a temporary directory, clones the last commit into it, runs `make test` there,
# and removes it with everything that still runs in it. BARE_COMMAND runs something else, BARE_AT clones elsewhere, BARE_KEEP=1
# keeps the root. TORCH, CI, PYTEST_ARGS, proxies and pip's settings are handed on.
set -u
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
. "$here/lib.sh"
. "$here/machine.sh"
. "$here/root.sh"
. "$here/inside.sh"

# Prints "deb URI SUITE main" for Debian's bookworm as this machine's apt has it, so that a mirror is used here too.
debian_sources() {
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(ORIGIN)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^\(deb [^ ]* bookworm[a-z-]*\) Debian.*/\1 main/p' | LC_ALL=C sort -u
}

make_root() {
    debian_sources >"$WORK/sources"
    [ -s "$WORK/sources" ] || printf 'deb http://deb.debian.org/debian bookworm main\n' >"$WORK/sources"
    apt_options >"$WORK/aptopt"
    # The README asks for make and git; nothing else is there.
    logged bare-root mmdebstrap --variant=apt --include=make,git --aptopt="$WORK/aptopt" bookworm "$BARE" "$WORK/sources" ||
        die "no bare Debian could be made"
}

remove_root() {
    [ -z "${BARE_KEEP:-}" ] || { say "kept: $BARE"; return; }
    rm -rf --one-file-system "$WORK"
}

locate "${here%/deploy/setup}"
[ "$(id -u)" = 0 ] || die "a bare Debian can only be made by root"
own_dir "$STATE"
refuse_production
AT=${BARE_AT:-/srv/nodevet}
WORK=$(mktemp -d /var/tmp/nodevet-bare-XXXXXX) || exit 1
chmod 0755 "$WORK"
BARE=$WORK/root
: >"$WORK/binds"
trap remove_root EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
started=$(date +%s)
ensure_packages mmdebstrap
make_root
say "bare Debian $(cat "$BARE/etc/debian_version") made in $(($(date +%s) - started)) s ($(du -sm "$BARE" | cut -f1) MB)"
pass_configuration
clone
run_inside
status=$?
say "bare run ended with $status after $(($(date +%s) - started)) s"
exit "$status"
