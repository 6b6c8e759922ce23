// Testmessages searches tests for failure messages without words: t.Errorf and t.Fatalf whose
// format has only verbs and signs, such as "%q %d", and t.Error and t.Fatal of values without a
// text. A message must say what the test got and what it wanted: "got %q, want %q".
//
// It prints their positions, and exits with 1 if there are any.
//
//	testmessages DIR...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func main() {
	found := 0
	for _, dir := range os.Args[1:] {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			lines, err := silent(path, nil)
			for _, line := range lines {
				fmt.Println(line)
			}
			found += len(lines)
			return err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "testmessages:", err)
			os.Exit(2)
		}
	}
	if found > 0 {
		fmt.Printf("%d failure messages have no words: write got %%q, want %%q\n", found)
		os.Exit(1)
	}
}

// silent returns the failures of a file whose messages have no words. source is the text of the
// file; nil: silent reads the file.
func silent(path string, source any) (lines []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && isFailure(call) && !speaks(call) {
			lines = append(lines, fmt.Sprintf("%s: the message of %s has no word", files.Position(call.Pos()), call.Fun.(*ast.SelectorExpr).Sel.Name))
		}
		return true
	})
	return lines, nil
}

// isFailure reports whether a call is one of Error, Errorf, Fatal and Fatalf of a test: its receiver is called t, b, f or tb.
func isFailure(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, method.Sel.Name) {
		return false
	}
	return slices.Contains([]string{"t", "b", "f", "tb"}, strings.ToLower(lastName(method.X)))
}

// lastName returns the last name of a variable, field or called function, or "" if it has none.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return lastName(e.Fun)
	}
	return ""
}

// verb matches a verb of a format of package fmt.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d*]*(\.[\d*]*)?(\[\d+\])?[a-zA-Z%]`)

// speaks reports whether a failure's message has a word, an error, or a text that a function
// returns.
func speaks(call *ast.CallExpr) bool {
	if strings.HasSuffix(call.Fun.(*ast.SelectorExpr).Sel.Name, "f") {
		text, known := literal(call.Args[0])
		return !known || hasWord(verb.ReplaceAllString(text, ""))
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		text, known := literal(arg)
		_, made := arg.(*ast.CallExpr)
		return known && hasWord(text) || made || strings.Contains(strings.ToLower(lastName(arg)), "err")
	})
}

func hasWord(text string) bool { return strings.ContainsFunc(text, unicode.IsLetter) }

// literal returns the text of a literal. For a concatenation it returns the known part.
func literal(e ast.Expr) (text string, known bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, _ := literal(e.X)
		right, isRight := literal(e.Y)
		return left + right, e.Op == token.ADD && (isRight || left != "")
	}
	return "", false
}
