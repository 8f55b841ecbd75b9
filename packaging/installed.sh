#!/bin/sh
# After the package is installed or upgraded. The unit is neither enabled nor started.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart samara-watch.service
