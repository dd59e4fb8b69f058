#!/bin/sh
# The user that the service runs as. Nothing is started: edit /etc/godwit/godwit.yaml first.
set -e
getent group godwit >/dev/null || groupadd --system godwit
getent passwd godwit >/dev/null || useradd --system --gid godwit --home-dir /var/lib/godwit --shell /usr/sbin/nologin godwit
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
