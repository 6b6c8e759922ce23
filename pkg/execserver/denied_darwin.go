package execserver

// tellsChanges reports false: it is not known here.
func tellsChanges(string) bool { return false }
