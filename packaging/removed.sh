#!/bin/sh
# After the package was removed. What `samara watch` kept stays, unless dpkg says `purge`.
set -e
[ "$1" != purge ] || rm -rf /var/lib/samara /var/lib/private/samara
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
