package egress

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInjectionsAreChecked: an entry that would not have the effect that its owner intended is
// refused.
func TestInjectionsAreChecked(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*Injection)) []Injection {
		e := Injection{Host: "a.test", Header: "Authorization", Scheme: "Bearer", ValueFile: "/run/secrets/a", PlaceholderEnv: "A_TOKEN"}
		f(&e)
		return []Injection{e}
	}
	good := change(func(*Injection) {})
	for name, tt := range map[string]struct {
		list []Injection
		want string
	}{
		"complete":        {good, ""},
		"a port":          {change(func(e *Injection) { e.Host = "A.TEST.:8443" }), ""},
		"an address":      {change(func(e *Injection) { e.Host = "[::1]:1" }), ""},
		"two headers":     {append(change(func(e *Injection) { e.Header = "X-Key" }), good...), ""},
		"twice":           {append(change(func(e *Injection) { e.Host = "A.test:443" }), good...), "sets Authorization for a.test already"},
		"two authorities": {append(change(func(e *Injection) { e.Header, e.UpstreamCA = "X", "/ca" }), good...), "another upstream_ca"},
		"too many":        {slices.Repeat(good, maxInjections+1), "at most 64"},
		"no host":         {change(func(e *Injection) { e.Host = "" }), "host is"},
		"a pattern":       {change(func(e *Injection) { e.Host = "*.a.test" }), "host is"},
		"a URL":           {change(func(e *Injection) { e.Host = "https://a.test" }), "host is"},
		"port 0":          {change(func(e *Injection) { e.Host = "a.test:0" }), "host is"},
		"no header":       {change(func(e *Injection) { e.Header = "" }), "header is"},
		"two lines":       {change(func(e *Injection) { e.Header = "A\r\nB" }), "header is"},
		"the length":      {change(func(e *Injection) { e.Header = "content-length" }), "belongs to the transport"},
		"hop by hop":      {change(func(e *Injection) { e.Header = "proxy-authorization" }), "belongs to the transport"},
		"a long scheme":   {change(func(e *Injection) { e.Scheme = "a b" }), "scheme is"},
		"no file":         {change(func(e *Injection) { e.ValueFile = "" }), "value_file is"},
		"a relative file": {change(func(e *Injection) { e.ValueFile = "secrets/a" }), "value_file is"},
		"dots":            {change(func(e *Injection) { e.ValueFile = "/run/secrets/../a" }), "value_file is"},
		"in /etc":         {change(func(e *Injection) { e.ValueFile = "/etc/token" }), "in a separate directory"},
		"in /":            {change(func(e *Injection) { e.ValueFile = "/token" }), "value_file is"},
		"in the home":     {change(func(e *Injection) { e.ValueFile = filepath.Join(home, "token") }), "in a separate directory"},
		"a bad variable":  {change(func(e *Injection) { e.PlaceholderEnv = "A-B" }), "placeholder_env is"},
		"a digit":         {change(func(e *Injection) { e.PlaceholderEnv = "1A" }), "placeholder_env is"},
		"a proxy":         {change(func(e *Injection) { e.PlaceholderEnv = "https_proxy" }), "sets this variable itself"},
		"the bundle":      {change(func(e *Injection) { e.PlaceholderEnv = "SSL_CERT_FILE" }), "sets this variable itself"},
		"the loader":      {change(func(e *Injection) { e.PlaceholderEnv = "LD_PRELOAD" }), "sets this variable itself"},
		"a relative CA":   {change(func(e *Injection) { e.UpstreamCA = "ca.pem" }), "upstream_ca is"},
	} {
		c, err := NewCeiling(CeilingConfig{Default: Deny, Inject: tt.list})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || c != nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestInjectionFiles: a server does not start with files that a request could not
// use, and its errors do not show their content.
func TestInjectionFiles(t *testing.T) {
	for name, tt := range map[string]struct{ value, scheme, ca, want string }{
		"good":           {testSecret, "", "", ""},
		"short":          {"x", "", "", "one line of 8 to"},
		"two lines":      {"hush-hush\nhush-hush", "", "", "one line"},
		"long":           {strings.Repeat("x", maxValue+1), "", "", "one line"},
		"large":          {strings.Repeat(" ", maxValueFile+1), "", "", "larger than"},
		"no user":        {"hush-hush", "Basic", "", "user:password"},
		"short password": {"long-user-name:x", "Basic", "", "user:password"},
		"no CA":          {testSecret, "", "/none/ca.pem", "/none/ca.pem"},
		"not a CA":       {testSecret, "", os.Args[0], "larger than"},
	} {
		file := secretFile(t, tt.value)
		c, err := NewCeiling(CeilingConfig{Default: Deny, Inject: []Injection{{
			Host: "a.test", Header: "X", Scheme: tt.scheme, ValueFile: file, UpstreamCA: tt.ca,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		err = c.CheckFiles()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush-hush")) {
			t.Errorf(`%s: got error %v; want no error, an error with %q, an error without "hush-hush"`, name, err, tt.want)
		}
	}
	var none *Ceiling
	if none.CheckFiles() != nil || none.SecretPaths() != nil {
		t.Error("no policy has files")
	}
}

// TestSecretPaths: the result also contains the targets of links, and the file itself. A profile's
// entry for the file, or for a directory between, would take precedence over the entry for the
// directory.
func TestSecretPaths(t *testing.T) {
	file := secretFile(t, testSecret)
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	link := filepath.Join(t.TempDir(), "sub", "link")
	if err := errors.Join(err, os.Mkdir(filepath.Dir(link), 0o700), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	c, err := NewCeiling(CeilingConfig{Default: Deny, Inject: []Injection{{Host: "a.test", Header: "X", ValueFile: filepath.Join(link, "token")}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{dir, filepath.Join(dir, "token"), link, filepath.Join(link, "token")}
	slices.Sort(want)
	if got := c.SecretPaths(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
