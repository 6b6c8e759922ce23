package files

// unlinkFile removes a name that is not a directory. For a directory the error is EISDIR.
func unlinkFile(dir int, name string) error { return unlinkAt(dir, name, 0) }
