package files

// unlinkFile removes a name that is not a directory; a directory is EISDIR.
func unlinkFile(dir int, name string) error { return unlinkAt(dir, name, 0) }
