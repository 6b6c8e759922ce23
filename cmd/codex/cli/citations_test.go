package cli

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// citation matches a document followed by the cited sections, as in docs/spec/wire.md §3.2. In
	// a document, a link may stand before the section.
	citation = regexp.MustCompile("([A-Za-z0-9_./-]+\\.md)[)`]? (" + oneSection + "(?:(?:,| and|, and| to) " + oneSection + ")*)")
	// numbered matches a heading with a number.
	numbered = regexp.MustCompile(`(?m)^(##|###) ([0-9]+(?:\.[0-9]+)?) \S`)
	// unnamed matches a section that is cited in words or after a bare document name, so that a
	// reader cannot find it.
	unnamed = regexp.MustCompile(`(?i)\bsections? [0-9]+(\.[0-9]+)?|\.md [0-9]+(\.[0-9]+)?\b`)
	// standard matches a citation of an external standard.
	standard = regexp.MustCompile(`\b(?:RFC|FIPS) [0-9]+,? (?:sections? )?[0-9][0-9.]*`)
	aSection = regexp.MustCompile(oneSection)
)

const oneSection = `§[0-9]+(?:\.[0-9]+)?`

// TestCitations checks that each citation of a section in Go comments, documents
// and scripts names a document and a section that exist, so that a reader of the
// comment finds the rule.
func TestCitations(t *testing.T) {
	sections := make(sectionsOf)
	cited := 0
	for name, texts := range citingTexts(t) {
		for _, text := range texts {
			cited += sections.check(t, name, text)
		}
	}
	if cited == 0 {
		t.Error("nothing is cited")
	}
}

// TestWrongCitationsAreFound checks the checker itself: a checker that accepts everything would
// pass TestCitations.
func TestWrongCitationsAreFound(t *testing.T) {
	sections := make(sectionsOf)
	for text, want := range map[string]int{
		"see docs/spec/wire.md §3.2": 0, "(docs/spec/wire.md §1, §3 and §5.2)": 0, "docs/spec/wire.md §3 to §7.": 0, "RFC 6455, section 5.2": 0,
		"docs/spec/wire.md §3.99": 1, "docs/spec/wire.md §1 and §99": 1, "docs/spec/nothing.md §1": 1, "see §3.2": 1,
		"section 3.2 says so": 1, "sandbox.md 2.1": 1, "wire.md §1": 1, "RFC 6455, section 5.2 and section 3": 1,
	} {
		if found := sections.wrong(t, "pkg/x/x.go", normalize(text)); len(found) != want {
			t.Errorf("%s: found %q, want %d errors", text, found, want)
		}
	}
	if found := sections.wrong(t, "docs/spec/wire.md", normalize("[sandbox.md](sandbox.md) §1.1, §1.2 and here §3")); len(found) != 0 {
		t.Errorf("found %q in a document", found)
	}
}

// TestSpecification checks that the sections of docs/spec are numbered in order
// without duplicates, and that links have existing targets.
func TestSpecification(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(repository, "docs/spec/*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no specification: %v", err)
	}
	for _, path := range names {
		name := filepath.Join("docs/spec", filepath.Base(path))
		text := read(t, name)
		for _, m := range citedLink.FindAllStringSubmatch(text, -1) {
			exists(t, filepath.Join(filepath.Dir(name), m[1]))
		}
		for _, m := range citedTest.FindAllStringSubmatch(text, -1) {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: %s has no %s", name, m[1], m[2])
			}
		}
		seen := make(map[string]bool)
		for _, m := range numbered.FindAllStringSubmatch(text, -1) {
			parent, _, nested := strings.Cut(m[2], ".")
			if seen[m[2]] || nested != (m[1] == "###") || nested && !seen[parent] {
				t.Errorf("%s: the heading %s %s is there twice, has another level, or is in another section", name, m[1], m[2])
			}
			seen[m[2]] = true
		}
	}
}

// sectionsOf maps each document to its section numbers. nil means that the document does not exist.
type sectionsOf map[string][]string

// check reports the wrong citations of a text. It returns the number of all citations.
func (s sectionsOf) check(t *testing.T, name, text string) int {
	t.Helper()
	for _, problem := range s.wrong(t, name, text) {
		t.Errorf("%s: wrong citation: %s", name, problem)
	}
	return len(aSection.FindAllString(text, -1))
}

// wrong returns the errors in the citations of a text in a file.
func (s sectionsOf) wrong(t *testing.T, name, text string) (problems []string) {
	t.Helper()
	if !mayCite(text) {
		return nil
	}
	if !strings.HasSuffix(name, ".md") {
		for _, words := range unnamed.FindAllString(standard.ReplaceAllString(text, ""), -1) {
			problems = append(problems, words+": name the document and the section, as in docs/spec/wire.md §3.2")
		}
	}
	rest := text
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		document := filepath.Clean(m[1])
		if strings.HasSuffix(name, ".md") && !strings.HasPrefix(m[1], "docs/") {
			document = filepath.Join(filepath.Dir(name), m[1])
		}
		for _, cited := range aSection.FindAllString(m[2], -1) {
			problems = append(problems, s.missing(t, document, cited)...)
		}
		rest = strings.Replace(rest, m[0], "", 1)
	}
	for _, cited := range aSection.FindAllString(rest, -1) {
		if !strings.HasPrefix(name, "docs/spec/") {
			problems = append(problems, cited+": of which document?")
			continue
		}
		problems = append(problems, s.missing(t, name, cited)...)
	}
	return problems
}

// mayCite reports whether a text may contain a citation. Most comments have none, and the
// patterns would take seconds for all of them.
func mayCite(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(lower, "§") || strings.Contains(lower, "section") || strings.Contains(lower, ".md ")
}

// missing returns an error if a document or its section does not exist.
func (s sectionsOf) missing(t *testing.T, document, cited string) []string {
	t.Helper()
	if _, known := s[document]; !known {
		s[document] = nil
		if text, err := os.ReadFile(filepath.Join(repository, document)); err == nil {
			s[document] = []string{""}
			for _, m := range numbered.FindAllStringSubmatch(string(text), -1) {
				s[document] = append(s[document], m[2])
			}
		}
	}
	switch {
	case s[document] == nil:
		return []string{document + " " + cited + ": the document does not exist"}
	case !slices.Contains(s[document], strings.TrimPrefix(cited, "§")):
		return []string{document + " " + cited + ": the section does not exist"}
	default:
		return nil
	}
}

// normalize joins the lines of a text, because a citation may span two.
func normalize(text string) string { return strings.Join(strings.Fields(text), " ") }

// citingTexts returns the texts of the repository in which sections are cited, by
// file: the comments of Go files, documents, and scripts as a whole.
func citingTexts(t *testing.T) map[string][]string {
	t.Helper()
	texts := make(map[string][]string)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		case strings.HasSuffix(name, ".go"):
			texts[name], err = comments(path)
			return err
		case strings.HasSuffix(name, ".md"), strings.HasSuffix(name, ".proto"), strings.HasPrefix(name, "scripts/"), strings.HasPrefix(name, ".ci/"):
			text, err := os.ReadFile(path)
			texts[name] = []string{normalize(strings.ReplaceAll(string(text), "\n#", "\n"))}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// comments returns the comments of a Go file.
func comments(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, c := range file.Comments {
		texts = append(texts, normalize(c.Text()))
	}
	return texts, nil
}
