package codexconfig

import "fmt"

// errSelected is the error for a selection whose text is too long.
var errSelected = fmt.Errorf("the selected tables have more than %d bytes", maxSelected)

// render returns a table as a TOML document: in each table the values come first,
// then the tables, both in the order of the file. The document must not be longer
// than limit, in bytes.
func render(t *table, limit int) (string, error) {
	r := renderer{limit: limit}
	r.table(nil, t)
	if r.tooLong || len(r.b) > limit {
		return "", errSelected
	}
	return string(r.b), nil
}

type renderer struct {
	b       []byte
	limit   int
	tooLong bool
}

// table appends the values of a table whose header is path.
func (r *renderer) table(path []byte, t *table) {
	for _, key := range t.keys {
		if v := t.values[key]; v.tables == nil && (v.table == nil || v.table.inline) {
			r.b = appendKey(r.b, key)
			r.b = append(r.b, " = "...)
			r.b = appendValue(r.b, v)
			r.b = append(r.b, '\n')
		}
	}
	for _, key := range t.keys {
		v := t.values[key]
		below := path[:len(path):len(path)]
		if len(path) > 0 {
			below = append(below, '.')
		}
		below = appendKey(below, key)
		if v.table != nil && !v.table.inline {
			if v.table.needsHeader() {
				r.header("[", below, "]\n")
			}
			r.table(below, v.table)
		}
		for _, element := range v.tables {
			r.header("[[", below, "]]\n")
			r.table(below, element)
		}
		if len(r.b) > r.limit {
			r.tooLong = true
		}
		if r.tooLong {
			return
		}
	}
}

func (r *renderer) header(begin string, path []byte, end string) {
	if len(r.b) > 0 {
		r.b = append(r.b, '\n')
	}
	r.b = append(r.b, begin...)
	r.b = append(r.b, path...)
	r.b = append(r.b, end...)
}

// needsHeader reports whether a table would disappear without its header, because it has values or
// is empty.
func (t *table) needsHeader() bool {
	for _, v := range t.values {
		if v.tables == nil && (v.table == nil || v.table.inline) {
			return true
		}
	}
	return len(t.values) == 0
}

// appendValue appends a value on one line.
func appendValue(b []byte, v *value) []byte {
	if v.table == nil {
		return append(b, v.text...)
	}
	b = append(b, '{')
	for i, key := range v.table.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, ' ')
		b = appendKey(b, key)
		b = append(b, " = "...)
		b = appendValue(b, v.table.values[key])
	}
	if len(v.table.keys) > 0 {
		b = append(b, ' ')
	}
	return append(b, '}')
}

// appendKey appends a key, in quotes if it needs them.
func appendKey(b []byte, key string) []byte {
	for i := range len(key) {
		if c := key[i]; !(c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
			return appendString(b, key)
		}
	}
	if key == "" {
		return append(b, `""`...)
	}
	return append(b, key...)
}

// appendString appends a basic string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < 0x20 || c == 0x7f:
			b = fmt.Appendf(b, `\u%04X`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
