package execproto

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"codex.internal/pkg/wire/jsonwire"
)

func TestGolden(t *testing.T) {
	for _, v := range vectors {
		got, err := Append([]byte("before"), v.object)
		if err != nil || string(got) != "before"+v.text {
			t.Errorf("%T:\n got %s (%v)\nwant %s", v.object, got, err, v.text)
		}
		if !json.Valid([]byte(v.text)) {
			t.Errorf("%T: the golden text is no JSON", v.object)
		}
		read := v.zero()
		if err := DecodeTo([]byte(v.text), read); err != nil || !reflect.DeepEqual(read, v.object) {
			t.Errorf("%T: %s was read as %+v (%v)", v.object, v.text, read, err)
		}
		if a, ok := v.object.(interface{ AppendJSON([]byte) []byte }); ok {
			if got := string(a.AppendJSON(nil)); got != v.text {
				t.Errorf("AppendJSON of %T:\n got %s\nwant %s", v.object, got, v.text)
			}
		}
		if n, ok := v.object.(Notification); ok {
			want := `{"method":"` + n.Notification() + `","params":` + v.text + `}`
			if got := string(Notify(n)(nil)); got != want {
				t.Errorf("Notify of %T:\n got %s\nwant %s", n, got, want)
			}
		}
		if n, ok := v.object.(*OutputNotification); ok {
			if got, want := string(AppendOutput(nil, n.ProcessID, n.Seq, n.Stream, n.Chunk)), string(Notify(n)(nil)); got != want {
				t.Errorf("AppendOutput:\n got %s\nwant %s", got, want)
			}
		}
	}
}

// TestGoldenIsComplete finds types, fields and members that no vector covers.
func TestGoldenIsComplete(t *testing.T) {
	seen := map[string]map[string]bool{}
	set := map[string]map[string]bool{}
	for _, v := range vectors {
		name := v.typeName()
		if seen[name] == nil {
			seen[name], set[name] = map[string]bool{}, map[string]bool{}
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(v.text), &members); err != nil {
			t.Fatal(err)
		}
		for m := range members {
			seen[name][m] = true
		}
		for i, o := 0, reflect.ValueOf(v.object).Elem(); i < o.NumField(); i++ {
			if !o.Field(i).IsZero() {
				set[name][o.Type().Field(i).Name] = true
			}
		}
	}
	for name, f := range fieldsMethods(t) {
		if seen[name] == nil {
			t.Errorf("%s has no vector", name)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && len(c.Args) > 1 {
				for _, arg := range c.Args[:2] { // of c.Text(name, ...) or jsonwire.Word(c, name, ...)
					if l, ok := arg.(*ast.BasicLit); ok && l.Kind == token.STRING && !seen[name][strings.Trim(l.Value, `"`)] {
						t.Errorf("%s: no vector has %s", name, l.Value)
					}
				}
			}
			return true
		})
	}
	for _, v := range vectors {
		for i, o := 0, reflect.TypeOf(v.object).Elem(); i < o.NumField(); i++ {
			if f := o.Field(i).Name; !set[o.Name()][f] {
				t.Errorf("%s: no vector sets %s", o.Name(), f)
			}
		}
	}
}

// fieldsMethods returns the source of the methods Fields by the names of their
// types.
func fieldsMethods(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	methods := map[string]*ast.FuncDecl{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Fields" {
				methods[f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name] = f
			}
		}
	}
	return methods
}

// TestNilIsEmpty encodes Go values that differ from those of the vectors but mean the same.
func TestNilIsEmpty(t *testing.T) {
	for _, v := range []vector{
		{&EnvPolicy{}, `{"inherit":"","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]}`},
		{&WriteParams{}, `{"processId":"","chunk":""}`},
		{&ReadResult{}, `{"chunks":[],"nextSeq":0,"exited":false,"exitCode":null,"closed":false,"failure":null,"sandboxDenied":false}`},
		{&HTTPRequestResult{}, `{"status":0,"headers":[],"bodyBase64":""}`},
		{&HTTPRequestParams{Body: []byte{}, Headers: []HTTPHeader{}},
			`{"method":"","url":"","bodyBase64":"","timeoutMs":null,"requestId":"","streamResponse":false}`},
		{&PathParams{"\xff", []byte(" {\r\n}\n")}, `{"path":"` + "\uFFFD" + `","sandbox": {  } }`},
	} {
		if got, err := Append(nil, v.object); err != nil || string(got) != v.text {
			t.Errorf("%T:\n got %s (%v)\nwant %s", v.object, got, err, v.text)
		}
	}
	for _, text := range []string{`{`, `{} {}`, "\"\xff\"", ` `} {
		if got, err := Append(nil, &PathParams{"/", []byte(text)}); err == nil {
			t.Errorf("a sandbox %q was written as %s", text, got)
		}
	}
}

// FuzzObject reads JSON as each of the types. An accepted object must be
// unchanged after it is written and read again, and its members must be those
// that encoding/json finds in the text.
func FuzzObject(f *testing.F) {
	zero := map[string]func() Object{}
	for _, v := range vectors {
		zero[v.typeName()] = v.zero
		f.Add(v.typeName(), []byte(v.text))
	}
	for name := range zero {
		for _, text := range []string{`null`, `{}`, `[]`, `{"a":1,"a":2}`, `{"processId":null}`} {
			f.Add(name, []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		if zero[name] == nil {
			return
		}
		r := jsonwire.NewReader(text)
		if r.Skip() != nil || r.End() != nil {
			return
		}
		o := zero[name]()
		if DecodeTo(bytes.Clone(text), o) != nil { // base64 is decoded in place
			return
		}
		once, err := Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		again := zero[name]()
		if err := DecodeTo(bytes.Clone(once), again); err != nil {
			t.Fatalf("%s was written as %s: %v", text, once, err)
		}
		if twice, _ := Append(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("%s was written as %s, and that as %s", text, once, twice)
		}
		if want, got := parse(t, text), parse(t, once); !contains(want, got) {
			t.Fatalf("%s was read as %s", text, once)
		}
	})
}

func parse(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: got error %v, want no error", text, err)
	}
	return v
}

// contains reports whether got has only members of the read text, or the
// representation of absent and null members.
func contains(text, got any) bool {
	switch got := got.(type) {
	case map[string]any:
		members, _ := text.(map[string]any)
		for name, value := range got {
			if !contains(members[name], value) {
				return false
			}
		}
		return members != nil || text == nil
	case []any:
		list, _ := text.([]any)
		for i, value := range got {
			if i >= len(list) || !contains(list[i], value) {
				return false
			}
		}
		return len(got) == len(list)
	case json.Number:
		return text == nil && got == "0" || text == got || text == json.Number("-0") && got == "0"
	default:
		return text == got || text == nil && (got == false || got == "" || got == "read" || got == "follow")
	}
}
