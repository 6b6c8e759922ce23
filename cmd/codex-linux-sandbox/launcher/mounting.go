//go:build !sandbox_without_mounts

package launcher

// mounting means that the launcher builds the view. Only a test of the second wall uses a build tag
// to build a launcher that does not, and so does not confine by mounts.
const mounting = true
