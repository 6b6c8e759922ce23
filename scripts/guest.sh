# Functions for QEMU guests that run a Debian kernel on this machine's own files. Scripts source
# this file after lib.sh. The script sets temp, a directory outside of /tmp and /var/tmp. It gives
# its guests a directory with the mount tag "job", which they share with this machine.

# This is the kernel of Debian 12 in the archive.
kernel_6_1=linux-image-6.1.0-56-amd64

# need_guests checks that guests can run on this machine.
need_guests() {
  [ "$(uname -m)" = x86_64 ] || fail "the guests are for x86_64, and this machine is $(uname -m)"
  command -v apt-get >/dev/null || fail "the kernels are packages of Debian 12: apt-get is needed"
  need_program qemu-system-x86_64 qemu-system-x86
  need_program busybox busybox-static
  need_program cpio cpio
  need_program xz xz-utils
  busybox=$(command -v busybox)
  if ldd "$busybox" >/dev/null 2>&1; then
    fail "$busybox needs libraries, which the first moments of a guest do not have: apt-get install busybox-static"
  fi
}

# package SERIES NAME prints the directory of an unpacked kernel. It is the package NAME, or the
# newest of the series, such as 6.1, if the archive no longer has NAME.
package() { # SERIES NAME
  local name=$2 dir=$temp/kernel-$1
  mkdir -p "$dir/x"
  if ! apt-cache show "$name" >/dev/null 2>&1; then
    apt-get update -qq >/dev/null 2>&1 || true
  fi
  if ! apt-cache show "$name" >/dev/null 2>&1; then
    local escaped=${1//./\\.}
    name=$(apt-cache search --names-only "^linux-image-$escaped[.+0-9a-z-]*-amd64\$" | cut -d ' ' -f 1 |
      grep -vE -- '-(cloud|rt)-|-dbg|^linux-image-[0-9.]+-amd64$' | sort -V | tail -n 1)
    # Metapackages such as linux-image-6.12-amd64 contain no kernel.
    [ -n "$name" ] || fail "apt offers neither $2 nor another kernel $1: the sources must be those of Debian 12"
    echo "$2 is not in the archive any more; $name is used. Pin it in $0." >&2
  fi
  (cd "$dir" && apt-get download -qq "$name" 2>error >&2 && dpkg-deb -x ./*.deb x && rm ./*.deb) ||
    fail "cannot fetch $name: apt-get download: $(tail -n 1 "$dir/error")"
  ls "$dir"/x/boot/vmlinuz-* >/dev/null 2>&1 || fail "$name has no kernel"
  echo "$dir"
}

# initrd DIR END makes the first file system of a guest. It mounts this machine's root read-only
# under an overlay, and the job directory writable. Its last command is END, a switch_root, because
# user namespaces are forbidden in a chroot.
initrd() { # DIR END
  local dir=$1 end=$2 r=$1/r m f
  local modules="virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay unix_diag"
  mkdir -p "$r"/{bin,modules,host,new,rw}
  cp "$busybox" "$r/bin/busybox"
  for m in $modules; do
    f=$(find "$dir/x" -name "$m.ko*" | head -n 1)
    case $f in
      '') ;;
      *.xz) xz -dc "$f" > "$r/modules/$m.ko" ;;
      *.zst) zstd -qdc "$f" > "$r/modules/$m.ko" ;;
      *) cp "$f" "$r/modules/$m.ko" ;;
    esac
  done
  cat > "$r/init" <<END
#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin /proc /sys; /bin/busybox --install -s
mount -t proc p /proc; mount -t sysfs s /sys
for m in $modules; do [ ! -e /modules/\$m.ko ] || insmod /modules/\$m.ko 2>/dev/null; done
share() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,\$3 \$1 \$2; }
share host /host cache=loose,ro
mount -t tmpfs t /rw; mkdir /rw/u /rw/w; mount -t overlay -o lowerdir=/host,upperdir=/rw/u,workdir=/rw/w o /new
mount -t proc p /new/proc; mount -t sysfs s /new/sys; mount -t devtmpfs d /new/dev; mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts -o ptmxmode=666 dp /new/dev/pts; mount -t tmpfs -o mode=1777 t /new/dev/shm
mount -t tmpfs -o mode=1777 t /new/tmp; mount -t tmpfs -o mode=1777 t /new/var/tmp
# These mounts would hide a repository that is below them.
case '$root' in /tmp/*|/var/tmp/*) mkdir -p '/new${root%/*}'; mount --bind '/host${root%/*}' '/new${root%/*}' ;; esac
mkdir -p /new/job; share job /new/job cache=none
ip link set lo up; hostname guest
$end
END
  chmod +x "$r/init"
  (cd "$r" && find . | cpio -o -H newc 2>/dev/null | gzip -1) > "$dir/initrd"
  rm -rf "$r"
}
