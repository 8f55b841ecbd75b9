#!/bin/sh
# After the package is installed or upgraded. The unit is neither enabled nor started.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# A unit that does not start is none of the package's faults: it stays installed.
systemctl try-restart samara-watch.service || true
