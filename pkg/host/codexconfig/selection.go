package codexconfig

// selection is the selected part of a document: a tree of literal keys. A nil
// selection selects the whole value.
type selection map[string]selection

// newSelection combines paths of keys. A path that is a prefix of another path contains the other
// one.
func newSelection(paths [][]string) selection {
	root := make(selection)
	for _, path := range paths {
		at := root
		for i, key := range path {
			below, known := at[key]
			switch {
			case i == len(path)-1:
				at[key] = nil
			case known && below == nil: // the whole value is selected already
			case !known:
				below = make(selection)
				at[key] = below
			}
			if below == nil {
				break
			}
			at = below
		}
	}
	return root
}

// of returns the selected part of a table. If a path leads through a value that is not a table, it
// selects that value. If it leads to a missing key of a table, the result has an empty table.
func (s selection) of(t *table) *table {
	if s == nil {
		return t
	}
	part := newTable()
	part.inline = t.inline
	for _, key := range t.keys {
		below, selected := s[key]
		if !selected {
			continue
		}
		v := t.values[key]
		if v.table != nil {
			v = &value{table: below.of(v.table)}
		}
		part.set(key, v)
	}
	return part
}
