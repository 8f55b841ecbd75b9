#!/bin/sh
# Before the package is removed: dpkg says `remove`, rpm the number of packages that stay.
set -e
[ -d /run/systemd/system ] || exit 0
case $1 in
remove | 0) systemctl disable --now --quiet samara-watch.service || true ;;
esac
