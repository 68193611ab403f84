# What a Debian made below a temporary directory gets from this machine: the way to its package indexes, and the checkout. Sourced.

# Prints the apt settings that reach the mirror here.
apt_options() { apt-config dump Acquire 2>/dev/null | grep -iE 'proxy|verify-peer|auth'; }

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

# Prints the mirror that this machine's apt has Debian from.
mirror() {
    uri=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^\([^ ]*\/debian\/\{0,1\}\) Debian$/\1/p' | LC_ALL=C sort -u | head -n 1)
    printf '%s\n' "${uri:-http://deb.debian.org/debian}"
}

# Makes a root of suite $1. A mirror that lags behind this machine's clock has "expired" Release files: the date is not checked,
# the signature is.
make_suite() {
    apt_options >"$WORK/aptopt"
    printf 'Acquire::Check-Valid-Until "false";\n' >>"$WORK/aptopt"
    logged "matrix-$1" nice -n 10 mmdebstrap --variant=apt --aptopt="$WORK/aptopt" \
        --include="make,git,$(printf '%s' "$PACKAGES" | tr ' ' ',')" "$1" "$BARE" "deb $(mirror) $1 main"
}
