//go:build sandbox_without_mounts

package launcher

const mounting = false
