#!/bin/sh
# What a container runtime does with an image that is run as compose and Kubernetes run it: jail.sh ROOT USER CONFIGURATION
# COMMAND..., within a mount namespace of its own. The root is read-only, but for the image's one writable directory; the
# command has the user, no groups, no capabilities and no way to get any. It is this very process, so signals are its.
set -eu
root=$1 user=$2 configuration=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --bind /proc "$root/proc"
mount --bind "$configuration" "$root/etc/stream-apple"
mount -o remount,bind,ro "$root/etc/stream-apple"
mount -t tmpfs -o "uid=$user,gid=$user,mode=0700,size=64m,nosuid,nodev" tmpfs "$root/var/cache/stream-apple"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --ambient-caps=-all \
    --bounding-set=-all --no-new-privs --pdeathsig KILL -- "$@"
