//go:build !unix

package safeopen

import "io/fs"

const noFollow = 0

// private accepts all files, because file permissions on this system are different.
func private(string, fs.FileInfo) error { return nil }

// CheckOwn accepts all files, because file permissions on this system are different. So do the
// functions below.
func CheckOwn(string, fs.FileInfo, fs.FileMode) error { return nil }

func trusted(string, fs.FileInfo) error { return nil }

func stays(string, fs.FileInfo) error { return nil }
