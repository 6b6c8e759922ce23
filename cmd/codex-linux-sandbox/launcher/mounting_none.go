//go:build linux && sandbox_without_mounts

package launcher

const mounting = false
