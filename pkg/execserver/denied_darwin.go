package execserver

// tellsChanges reports false: it is not known here.
func tellsChanges(string) bool { return false }

// tellsRenamings reports false: it is not known here.
func tellsRenamings(string) bool { return false }
