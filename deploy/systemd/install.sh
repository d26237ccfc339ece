#!/bin/sh
# Installs canaryd's units, user and folders; may be run again at any time. Enables and starts nothing.
#   install.sh              install or bring up to date
#   install.sh --uninstall  take the units away; configuration, store, keys and user stay
# With DESTDIR set, files are only placed below it (for packages and tests).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=${DESTDIR:-}
program=/opt/canaryd/bin/canaryd
units=$root/usr/lib/systemd/system
sysusers=$root/usr/lib/sysusers.d/canaryd.conf
tmpfiles=$root/usr/lib/tmpfiles.d/canaryd.conf
child=$root/usr/lib/canaryd/sandbox_child.py
dropin=$root/etc/systemd/system/canaryd.service.d/credentials.conf
project=$root/etc/canaryd
config=$project/config.toml
service=$root/usr/sbin/canaryd-service
checkout=$here/../..
credstore=$root/etc/credstore

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

systemd() {
    if [ -z "$root" ]; then "$@"; fi
}

uninstall() {
    systemd systemctl disable --now canaryd.service canaryd-sandbox.socket 2>/dev/null || true
    rm -f "$units/canaryd.service" "$units/canaryd-sandbox.socket" "$units/canaryd-sandbox@.service"
    rm -f "$sysusers" "$tmpfiles" "$child" "$dropin" "$service"
    rmdir "$(dirname "$child")" "$(dirname "$dropin")" 2>/dev/null || true
    systemd rm -rf /run/canaryd-sandbox
    systemd systemctl daemon-reload
    echo "removed the units; /etc/canaryd, /etc/credstore, /var/lib/canaryd and the user canaryd stay"
}

sandbox_child() {
    if [ -n "$root" ]; then
        echo "$checkout/canaryd/sandbox/child.py"
    else
        "$(dirname "$program")/python" -c 'import canaryd.sandbox.child as child; print(child.__file__)'
    fi
}

credentials() {
    echo "[Service]"
    for key in "$credstore"/canaryd.*; do
        [ -f "$key" ] || continue
        name=${key##*/canaryd.}
        echo "LoadCredential=$name:/etc/credstore/canaryd.$name"
        # Without a default, a file that is gone would keep the whole unit from starting; an empty key closes its arms.
        printf '%s\n' "SetCredential=$name:\\n"
    done
}

# The starter project: a configuration to edit, its registration and its panel. What is there already stays.
first_project() {
    [ ! -e "$config" ] || return 0
    install -m 0640 "$checkout/config.example.toml" "$config"
    # The unit may write below /var/lib/canaryd alone.
    sed -i -e 's|"sqlite:///canaryd.db"|"sqlite:////var/lib/canaryd/canaryd.db"|' \
        -e 's|"backups"|"/var/lib/canaryd/backups"|' -e 's|"export/|"/var/lib/canaryd/export/|' "$config"
    [ -e "$project/prereg.toml" ] || install -m 0640 "$checkout/prereg.example.toml" "$project/prereg.toml"
    if [ ! -e "$project/panel" ]; then
        install -d -m 0750 "$project/panel"
        install -m 0640 "$checkout"/panel/starter.* "$project/panel/"
    fi
    systemd chgrp -R canaryd "$project"
}

install_all() {
    if [ -z "$root" ]; then
        [ "$(id -u)" = 0 ] || fail "must be run as root; try: sudo $0"
        [ -x "$program" ] || fail "$program is missing; install canaryd first: python3 -m venv /opt/canaryd && /opt/canaryd/bin/pip install $(cd "$checkout" && pwd)"
    fi
    install -d "$units" "$(dirname "$sysusers")" "$(dirname "$tmpfiles")" "$(dirname "$child")" "$(dirname "$dropin")" "$(dirname "$service")"
    install -d -m 0700 "$credstore"
    install -m 0644 "$here/canaryd.service" "$here/canaryd-sandbox.socket" "$here/canaryd-sandbox@.service" "$units/"
    install -m 0644 "$here/canaryd.sysusers.conf" "$sysusers"
    install -m 0644 "$here/canaryd.tmpfiles.conf" "$tmpfiles"
    install -m 0644 "$(sandbox_child)" "$child"
    install -m 0755 "$here/canaryd-service" "$service"
    credentials >"$dropin"
    systemd systemd-sysusers canaryd.conf
    systemd systemd-tmpfiles --create canaryd.conf
    install -d -m 0750 "$project"
    systemd chgrp canaryd "$project"
    first_project
    systemd systemctl daemon-reload
    echo "installed; next:"
    echo "  edit /etc/canaryd/config.toml, put keys as /etc/credstore/canaryd.NAME (0600) and run this script again"
    echo "  systemctl enable --now canaryd-sandbox.socket"
    echo "  canaryd-service db upgrade && canaryd-service register && canaryd-service doctor"
    echo "  systemctl enable --now canaryd.service"
    echo "after an update: systemctl stop canaryd, canaryd-service db upgrade, systemctl start canaryd"
}

case "${1:-}" in
    "") install_all ;;
    --uninstall) uninstall ;;
    *) fail "$1 is unknown; run it without arguments, or with --uninstall" ;;
esac
