# The last step of making the base, run inside it by the Dockerfile and by mmdebstrap alike.
set -eu

# No file may lend privilege to who runs it. Not into /dev: mmdebstrap shows the machine's own there.
find / -xdev -path /dev -prune -o -type f -perm /6000 -exec chmod ug-s {} +

# What no program reads. The folders stay, since dpkg expects them.
rm -rf /tmp/base /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/*.log /var/log/apt/* \
  /usr/share/doc/* /usr/share/info/* /usr/share/locale/* /usr/share/man/*
