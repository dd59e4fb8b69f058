#!/bin/sh
# deb passes remove, rpm 0, when the package goes; upgrades leave the node running until it is started again.
set -e
case "$1" in
  remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now godwit.service || true; fi ;;
esac
