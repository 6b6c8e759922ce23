//go:build !sandbox_without_mounts

package launcher

// mounting means that the view is made. Only a test of the second wall builds a
// launcher without it, with a build tag: such a launcher does not confine by
// mounts.
const mounting = true
