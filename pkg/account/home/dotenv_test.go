package home

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseDotenv(t *testing.T) {
	lookup := func(name string) (string, bool) { return "outer", name == "OUTER" }
	for _, tt := range []struct {
		name, text string
		want       map[string]string
	}{
		{"plain", "A=b\nC = d\n", map[string]string{"A": "b", "C": "d"}},
		{"no newline at the end", "A=b", map[string]string{"A": "b"}},
		{"lines of Windows", "A=b\r\nC=d\r\n", map[string]string{"A": "b", "C": "d"}},
		{"byte order mark", "\ufeffA=b", map[string]string{"A": "b"}},
		{"comments", "# A=b\nA=b # c\nC=#d\nE=f#g\n", map[string]string{"A": "b", "C": "", "E": "f#g"}},
		{"export", "export A=b\nexport=c\n", map[string]string{"A": "b", "export": "c"}},
		{"single quotes", `A='$OUTER \n "x"'`, map[string]string{"A": `$OUTER \n "x"`}},
		{"double quotes", `A="a \"b\" \\ \$x\n"`, map[string]string{"A": "a \"b\" \\ $x\n"}},
		{"quotes and bare", `A=a" b "'c'd`, map[string]string{"A": "a b cd"}},
		{"over lines", "A=\"b\nc\"\nD=e", map[string]string{"A": "b\nc", "D": "e"}},
		{"references", "A=1\nB=$A-${OUTER}-$NONE.\nC=$", map[string]string{"A": "1", "B": "1-outer-.", "C": "$"}},
		{"the later one counts", "A=1\nA=2", map[string]string{"A": "2"}},
		{"malformed lines are skipped", "nonsense\nA=b c\n1A=b\n=x\nB=\\q\nC=d", map[string]string{"C": "d"}},
		{"open quotes take the rest", "A=b\nC='d\nE=f", map[string]string{"A": "b"}},
		{"dots", "A.B=c", map[string]string{"A.B": "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string]string)
			for _, v := range parseDotenv(tt.text, lookup) {
				got[v.name] = v.value
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLoadDotenv(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"CODEX_API_KEY", "codex_lower"} {
		t.Setenv(name, "as it was")
	}
	t.Setenv("DOTENV_TEST", "before")
	if err := LoadDotenv(filepath.Join(home, "none")); err != nil {
		t.Errorf("a missing home: %v", err)
	}
	text := "CODEX_API_KEY=x\ncodex_lower=x\nDOTENV_TEST=after\n"
	if err := os.WriteFile(filepath.Join(home, ".env"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := LoadDotenv(home); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"CODEX_API_KEY": "as it was", "codex_lower": "as it was", "DOTENV_TEST": "after"} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".env"), make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := LoadDotenv(home); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestReferencesAreBounded(t *testing.T) {
	text := "A=0123456789\n" + strings.Repeat("A=$A$A\n", 100)
	size := 0
	for _, v := range parseDotenv(text, func(string) (string, bool) { return "", false }) {
		size += len(v.value)
	}
	if size > 2*maxFileBytes {
		t.Errorf("they became %d bytes", size)
	}
}

func FuzzParseDotenv(f *testing.F) {
	for _, text := range []string{"A=b\n", "export A='b' # c", `A="$B${C}\n"`, "A=\\", "A=${", "=\n=", "A=\"\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range parseDotenv(text, func(string) (string, bool) { return "", false }) {
			if v.name == "" || strings.ContainsAny(v.name, "= \t\n\"'$\\") || v.name[0] >= '0' && v.name[0] <= '9' {
				t.Errorf("%q gives the name %q", text, v.name)
			}
		}
	})
}
