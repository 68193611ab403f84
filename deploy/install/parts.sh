# What the installer puts where, part by part, and how it takes it away again. Sourced, never run.

RELEASES=

# An upgrade keeps what the installation was made for.
keep_server() {
    if [ -e "$D/etc/systemd/system/nodevet-server.service" ]; then SERVER=1; fi
}

# Makes the new release beside the one in force: its own virtual environment, complete before anybody sees it.
make_release() {
    RELEASES=$PREFIX.d
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/pyproject.toml")
    RELEASE=$RELEASES/$version-$(date -u +%Y%m%dT%H%M%SZ)-$$
    say "making release $D$RELEASE with $PYTHON"
    run mkdir -p "$D$RELEASES"
    [ -n "$DRY" ] || trap 'rm -rf "$D$RELEASE"' EXIT
    run "$PYTHON" -I -m venv "$D$RELEASE" || die "no virtual environment"
    source=$(mktemp -d) || exit 1
    # From a copy: setuptools leaves a build folder where it builds, and installs what an old one still holds.
    (cd "$ROOT" && cp -R checks slurm daemon api deploy pyproject.toml README.md LICENSE "$source") || die "$ROOT is not complete"
    set -- --constraint "$ROOT/deploy/setup/requirements.lock" "$source${SERVER:+[server]}"
    [ -z "$WHEELS" ] || set -- --no-index --find-links "$WHEELS" "$@"
    run "$D$RELEASE/bin/python" -I -m pip --quiet --disable-pip-version-check --no-input install "$@"
    status=$?
    rm -rf "$source"
    [ "$status" = 0 ] || die "the packages could not be installed; what runs now is untouched"
    fix_shebangs
    run "$D$RELEASE/bin/python" -I -c "import daemon.agent.main, daemon.cli.asking, slurm.hook.build${SERVER:+, api.serve}" ||
        die "the new release does not import; what runs now is untouched"
}

# Scripts start through PREFIX, which stays the same over upgrades and is right below --destdir, too.
fix_shebangs() {
    [ -z "$DRY" ] || return 0
    for script in "$D$RELEASE"/bin/*; do
        # Where the path is long or holds a blank, pip starts Python through three lines of sh.
        [ -L "$script" ] || sed -i -e "1s|^#!.*/bin/python.*|#!$PREFIX/bin/python|" \
            -e "1{/^#!\/bin\/sh\$/{N;N;s|.*'''exec'.*|#!$PREFIX/bin/python|}}" "$script"
    done
}

install_hooks() {
    say "hooks nodevet-prolog, -epilog, -health, -unkillable, -taskprolog, -prologctld and -epilogctld in $D$HOOKS"
    run install -d -m 0755 "$D$HOOKS"
    if [ -n "$BUILT" ]; then
        for name in prolog epilog health unkillable taskprolog prologctld epilogctld; do put "$BUILT/nodevet-$name" "$HOOKS/nodevet-$name" 0755; done
    else
        run "$D$RELEASE/bin/python" -I "$here/build_hook.py" "$D$HOOKS" || die "the hooks could not be built; what runs now is untouched"
    fi
}

# One rename changes the version.
switch_release() {
    PREVIOUS=$(readlink "$D$PREFIX" 2>/dev/null)
    run ln -sfn "$(basename "$RELEASES")/$(basename "$RELEASE")" "$D$PREFIX.new" &&
        run mv -T "$D$PREFIX.new" "$D$PREFIX" || die "$D$PREFIX could not be switched to the new release"
    trap - EXIT
    run install -d "$D/usr/local/bin"
    if [ ! -e "$D/usr/local/bin/nodevet" ] || [ -L "$D/usr/local/bin/nodevet" ]; then
        run ln -sfn "$PREFIX/bin/nodevet" "$D/usr/local/bin/nodevet"
    fi
}

# Configuration is written once; what an administrator has changed is never touched.
install_configuration() {
    for dir in /etc/nodevet /etc/nodevet/policy.d /etc/nodevet/profiles.d /etc/nodevet/checks.d; do
        run install -d -m 0755 "$D$dir"
    done
    sed -e "${NODE:+s|^#node = .*|node = \"$NODE\"|}" -e "${CLUSTER:+s|^#cluster = .*|cluster = \"$CLUSTER\"|}" \
        -e "${CENTRAL:+s|^#url = .*|url = \"$CENTRAL\"|}" \
        -e "${TOKEN:+s|^#token_file|token_file|}" "$here/nodevet.toml" | put_once nodevet.toml 0644
    put_once hook.conf 0644 <"$ROOT/slurm/hook/hook.conf"
    [ -z "$SERVER" ] ||
        sed -e "${CLUSTER:+s|^#cluster = .*|cluster = \"$CLUSTER\"|}" "$here/server.toml" | put_once server.toml 0640
    [ -z "$TOKEN" ] || put "$TOKEN" /etc/nodevet/token 0600
}

put_once() {
    if [ -e "$D/etc/nodevet/$1" ]; then
        say "kept: $D/etc/nodevet/$1"
    else
        put_text "/etc/nodevet/$1" "$2"
    fi
}

install_units() {
    for name in agent ${SERVER:+server}; do
        sed "s|/opt/nodevet/|$PREFIX/|" "$ROOT/deploy/systemd/nodevet-$name.service" |
            put_text "/etc/systemd/system/nodevet-$name.service" 0644
    done
    put "$ROOT/deploy/systemd/nodevet.sysusers" /usr/lib/sysusers.d/nodevet.conf 0644
    [ -z "$SERVER" ] || put "$ROOT/deploy/systemd/nodevet-server.sysusers" /usr/lib/sysusers.d/nodevet-server.conf 0644
    put "$ROOT/deploy/systemd/nodevet.tmpfiles" /usr/lib/tmpfiles.d/nodevet.conf 0644
    # Made at every boot, where slurmctld leaves what it knows of jobs; only it and the server may write there.
    [ -z "$SERVER" ] ||
        echo "d /run/nodevet-jobs 2770 $(slurm_user) nodevet-server -" | put_text /usr/lib/tmpfiles.d/nodevet-jobs.conf 0644
}

# Slurm's own account: as slurm.conf says, and without a word of it root's, which is Slurm's default.
slurm_user() {
    found=$(sed -n 's/^[[:space:]]*SlurmUser[[:space:]]*=[[:space:]]*\([A-Za-z0-9_][A-Za-z0-9_.-]*\).*/\1/pI' \
        "$D/etc/slurm/slurm.conf" "$D/etc/slurm-llnl/slurm.conf" 2>/dev/null | tail -n 1)
    echo "${found:-root}"
}

make_users() {
    if [ -n "$D" ]; then
        say "on the machine itself: systemd-sysusers; systemd-tmpfiles --create" \
            "${SERVER:+; chgrp nodevet-server /etc/nodevet/server.toml}"
        return 0
    fi
    for user in nodevet ${SERVER:+nodevet-server}; do
        getent passwd "$user" >/dev/null && continue
        run useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin "$user" ||
            die "user $user could not be made"
    done
    run install -d -m 0755 /run/nodevet
    run install -d -m 0700 /run/nodevet/marks /var/lib/nodevet
    if [ -n "$SERVER" ]; then
        run install -d -m 0700 -o nodevet-server -g nodevet-server /var/lib/nodevet-server
        run chgrp nodevet-server /etc/nodevet/server.toml
        run install -d -m 2770 -o "$(slurm_user)" -g nodevet-server /run/nodevet-jobs
    fi
}

# The release before this one stays to go back to, and for processes that still run from it.
remove_old_releases() {
    [ -z "$DRY" ] || return 0
    for old in "$D$RELEASES"/*; do
        case ${old##*/} in "${RELEASE##*/}" | "${PREVIOUS##*/}") ;; *) rm -rf "$old" ;; esac
    done
}

finish() {
    if [ -z "$D" ] && [ -d /run/systemd/system ]; then
        run systemctl daemon-reload
        for name in agent ${SERVER:+server}; do
            [ -z "$ENABLE" ] || run systemctl enable --now "nodevet-$name"
            # Only what runs already: an upgrade takes effect, an installation waits for its configuration.
            run systemctl try-restart "nodevet-$name"
        done
    fi
    [ -z "$DRY" ] || { say "a dry run: nothing was changed"; return 0; }
    [ -z "$SERVER" ] || say "server: cluster in /etc/nodevet/server.toml, systemctl enable --now nodevet-server;" \
        "tokens: runuser -u nodevet-server -- nodevet token create --help"
    say "node: agent.node and agent.cluster in /etc/nodevet/nodevet.toml, systemctl enable --now nodevet-agent, nodevet hook test," \
        "then the lines of deploy/slurm/slurm.conf.lines"
}

uninstall() {
    RELEASES=$PREFIX.d
    used=$(hooks_in_use)
    [ -z "$used" ] || [ -n "$FORCE" ] ||
        die "Slurm still runs our hooks ($used): without them every prolog would fail and drain its node." \
            "Take them out of slurm.conf, scontrol reconfigure, and run this again; --force removes them all the same"
    check_prefix
    if [ -z "$D" ] && [ -d /run/systemd/system ]; then run systemctl disable --now nodevet-agent nodevet-server 2>/dev/null; fi
    run rm -f "$D/etc/systemd/system/nodevet-agent.service" "$D/etc/systemd/system/nodevet-server.service" \
        "$D/usr/lib/sysusers.d/nodevet.conf" "$D/usr/lib/sysusers.d/nodevet-server.conf" "$D/usr/lib/tmpfiles.d/nodevet.conf" \
        "$D/usr/lib/tmpfiles.d/nodevet-jobs.conf" \
        "$D$HOOKS/nodevet-prolog" "$D$HOOKS/nodevet-epilog" "$D$HOOKS/nodevet-health" \
        "$D$HOOKS/nodevet-unkillable" "$D$HOOKS/nodevet-taskprolog" \
        "$D$HOOKS/nodevet-prologctld" "$D$HOOKS/nodevet-epilogctld" "$D$PREFIX"
    if [ "$(readlink "$D/usr/local/bin/nodevet" 2>/dev/null)" = "$PREFIX/bin/nodevet" ]; then run rm -f "$D/usr/local/bin/nodevet"; fi
    run rm -rf "$D$RELEASES"
    [ ! -d "$D$HOOKS" ] || run rmdir "$D$HOOKS" 2>/dev/null
    [ -z "$DRY" ] || { say "a dry run: nothing was changed"; return 0; }
    if [ -n "$PURGE" ]; then
        rm -rf "$D/etc/nodevet" "$D/var/lib/nodevet" "$D/var/lib/nodevet-server"
        say "removed, configuration and state included; users nodevet and nodevet-server stay, since files may be theirs"
    else
        say "removed; /etc/nodevet and /var/lib/nodevet stay (--purge removes them, too)"
    fi
}
