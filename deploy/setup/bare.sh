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
. "$here/inside.sh"

# Prints "deb URI SUITE main" for Debian's bookworm as this machine's apt has it, so that a mirror is used here too.
debian_sources() {
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(ORIGIN)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^\(deb [^ ]* bookworm[a-z-]*\) Debian.*/\1 main/p' | LC_ALL=C sort -u
}

make_root() {
    debian_sources >"$WORK/sources"
    [ -s "$WORK/sources" ] || printf 'deb http://deb.debian.org/debian bookworm main\n' >"$WORK/sources"
    apt-config dump Acquire 2>/dev/null | grep -iE 'proxy|verify-peer|auth' >"$WORK/aptopt"
    # The README asks for make and git; nothing else is there.
    logged bare-root mmdebstrap --variant=apt --include=make,git --aptopt="$WORK/aptopt" bookworm "$BARE" "$WORK/sources" ||
        die "no bare Debian could be made"
}

# The name look-up, certificates, apt credentials and pip settings that this machine needs to reach its package indexes.
pass_configuration() {
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/netrc; do
        [ ! -f "$file" ] || cp -L "$file" "$BARE$file"
    done
    for dir in /etc/apt/auth.conf.d /usr/local/share/ca-certificates /etc/xdg/pip; do
        [ ! -d "$dir" ] || { mkdir -p "$BARE$dir" && cp -RL "$dir/." "$BARE$dir"; }
    done
    grep -qw "$(uname -n)" "$BARE/etc/hosts" || printf '127.0.0.1 %s\n' "$(uname -n)" >>"$BARE/etc/hosts"
    pip_directories | while IFS= read -r dir; do
        mkdir -p "$BARE$dir"
        printf '%s\n' "$dir" >>"$WORK/binds"
    done
}

# Prints the directories that pip's settings name here (find-links, file: indexes); they are mounted read-only.
pip_directories() {
    { cat /etc/pip.conf /etc/xdg/pip/pip.conf "${XDG_CONFIG_HOME:-${HOME:-/root}/.config}/pip/pip.conf" "${HOME:-/root}/.pip/pip.conf" 2>/dev/null
      env | grep '^PIP_'; } | tr ' \t=,' '\n\n\n\n' | sed 's#^file://##' | grep '^/' | LC_ALL=C sort -u |
        while IFS= read -r path; do [ ! -d "$path" ] || printf '%s\n' "$path"; done
}

clone() {
    [ -z "$(git -C "$ROOT" status --porcelain 2>/dev/null)" ] || say "the checkout has changes that are not committed: they are not tested"
    mkdir -p "$(dirname "$BARE$AT")"
    git clone -q --no-local "$ROOT" "$BARE$AT" || die "the checkout could not be cloned"
    git -C "$BARE$AT" remote remove origin
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
