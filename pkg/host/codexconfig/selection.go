package codexconfig

// selection is the selected part of a document: a tree of literal keys. A nil
// selection selects the whole value.
type selection map[string]selection

// newSelection unites paths of keys. A path that another one begins with contains
// it.
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

// of returns the selected part of a table. A path that leads through a value that
// is not a table selects the value; one that leads to a missing key of a table
// leaves an empty table.
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
