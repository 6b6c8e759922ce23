package main

import "testing"

func TestSilent(t *testing.T) {
	for statement, want := range map[string]int{
		`t.Errorf("%q %d", a, b)`:                 1,
		`t.Errorf("%+v: %-20.3s\n", a, b)`:        1,
		`t.Fatalf("%[2]q, %*d", a, b, c)`:         1,
		`t.Errorf("%s: "+"%v", a, b)`:             1,
		`w.t.Errorf("%v", a)`:                     1,
		`r.T.Fatalf("%v", a)`:                     1,
		`t.Error(got)`:                            1,
		`t.Fatal(got, "; ")`:                      1,
		`t.Errorf("got %q, want %q", a, b)`:       0,
		`t.Errorf("%s: a file is left", a)`:       0,
		`t.Errorf("%s: "+"the text is %v", a)`:    0,
		`t.Errorf(format, a)`:                     0,
		`t.Fatal(err)`:                            0,
		`t.Error(parseErr)`:                       0,
		`t.Error("it is not found")`:              0,
		`t.Error(describe(a))`:                    0,
		`_ = fmt.Errorf("%w: %q", a, b)`:          0,
		`t.Logf("%q", a)`:                         0,
		`log.Fatalf("%v", a)`:                     0,
		`if a { b.Run(c, func() { t.Fatal(d) })}`: 1,
	} {
		lines, err := silent("a_test.go", "package a\nfunc f() {\n"+statement+"\n}\n")
		if err != nil || len(lines) != want {
			t.Errorf("%s: got %q, error %v; want %d lines, no error", statement, lines, err, want)
		}
	}
}
