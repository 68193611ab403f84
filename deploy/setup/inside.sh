# Runs one command in the bare root, in namespaces of its own: with its first process goes everything that it left running or mounted.

# Prints NAME=VALUE for each variable that is handed on, one a line.
handed_on() {
    env | grep -E '^([a-z]+_proxy|[A-Z]+_PROXY|PIP_[A-Z_]+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CI|TORCH|PYTEST_ARGS)='
}

# The root is a mount of its own first, as a machine's is.
mount_all() {
    mount --bind "$BARE" "$BARE" &&
        mount -t proc proc "$BARE/proc" &&
        mount --rbind /dev "$BARE/dev" && mount --make-rslave "$BARE/dev" &&
        mount --rbind /sys "$BARE/sys" && mount --make-rslave "$BARE/sys" || return 1
    while IFS= read -r dir; do
        mount --bind "$dir" "$BARE$dir" && mount -o remount,bind,ro "$BARE$dir" || return 1
    done <"$WORK/binds"
}

run_inside() {
    set -- PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}"
    handed_on >"$WORK/environment"
    while IFS= read -r setting; do set -- "$@" "$setting"; done <"$WORK/environment"
    export BARE WORK AT
    unshare --mount --pid --fork --kill-child sh -c '
        . "$1/inside.sh"; command=$2; shift 2
        mount_all || { echo "setup: the bare root could not be mounted" >&2; exit 1; }
        # The last shell does not exec: it is the first process in there and reaps what daemons leave behind. Its root is the
        # bare one, as /proc/1 is where programs look for what the machine has mounted.
        exec chroot "$BARE" /usr/bin/env -i "$@" sh -c "cd \"\$0\" && (eval \"\$1\"); exit \$?" "$AT" "$command"
    ' sh "$here" "${BARE_COMMAND:-make test}" "$@"
}
