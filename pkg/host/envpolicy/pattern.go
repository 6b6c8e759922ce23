package envpolicy

import "unicode"

// patterns are compiled once and matched against many names. A pattern must match a whole name.
// Case is ignored. `*` matches any number of characters and `?` matches one. Every other character
// matches itself, and there is no escape.
//
// A match takes at most as many steps as the product of both lengths.
type patterns [][]rune

func compile(texts []string) patterns {
	out := make(patterns, len(texts))
	for i, text := range texts {
		out[i] = fold(text)
	}
	return out
}

// match reports whether one of the patterns matches a name that fold has returned.
func (ps patterns) match(name []rune) bool {
	for _, p := range ps {
		if matchFolded(p, name) {
			return true
		}
	}
	return false
}

// fold returns the characters of text in lower case. Invalid UTF-8 becomes U+FFFD.
func fold(s string) []rune {
	text := []rune(s)
	for i, c := range text {
		text[i] = unicode.ToLower(c)
	}
	return text
}

// matchFolded reads the name once, and backtracks only to the last star. It matched the part before
// that star as early as possible, so a longer match of an earlier star could not succeed either.
func matchFolded(pattern, name []rune) bool {
	p, n := 0, 0
	star, mark := -1, 0 // the last star, and the end of its match in name
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
