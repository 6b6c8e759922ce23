package wsauth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

const testToken = "open sesame, and 128 bits"

var testSecret = strings.Repeat("k", minSecretBytes)

// file creates a file with a text and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// mode is file with a mode, which does not depend on the umask.
func mode(t *testing.T, text string, m os.FileMode) string {
	t.Helper()
	name := file(t, text)
	if err := os.Chmod(name, m); err != nil {
		t.Fatal(err)
	}
	return name
}

func sha(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

// TestRefusedConfigs: each error names the flag and the remedy.
func TestRefusedConfigs(t *testing.T) {
	secret := file(t, testSecret)
	minute, negative := time.Minute, -time.Second
	capability := func(c Config) Config { c.Mode = CapabilityToken; return c }
	signed := func(c Config) Config {
		c.Mode = SignedBearerToken
		if c.SharedSecretFile == "" {
			c.SharedSecretFile = secret
		}
		return c
	}
	for _, tt := range []struct {
		name string
		c    Config
		want []string
	}{
		{"unknown mode", Config{Mode: "magic"}, []string{"--ws-auth", "magic", "use capability-token or"}},
		{"token file without a mode", Config{TokenFile: "/x"}, []string{"--ws-token-file", "add --ws-auth"}},
		{"digest without a mode", Config{TokenSHA256: "00"}, []string{"--ws-token-sha256", "add --ws-auth"}},
		{"secret without a mode", Config{SharedSecretFile: secret}, []string{"--ws-shared-secret-file", "add --ws-auth"}},
		{"issuer without a mode", Config{Issuer: "x"}, []string{"--ws-issuer", "add --ws-auth"}},
		{"audience without a mode", Config{Audience: "x"}, []string{"--ws-audience", "add --ws-auth"}},
		{"skew without a mode", Config{ClockSkew: &minute}, []string{"--ws-max-clock-skew-seconds", "add --ws-auth"}},

		{"no token", Config{Mode: CapabilityToken}, []string{"--ws-token-file", "--ws-token-sha256", "add"}},
		{"both tokens", capability(Config{TokenFile: "/x", TokenSHA256: "00"}), []string{"--ws-token-file", "--ws-token-sha256", "give one"}},
		{"secret with a capability", capability(Config{TokenSHA256: sha("x"), SharedSecretFile: secret}), []string{"--ws-shared-secret-file", SignedBearerToken}},
		{"issuer with a capability", capability(Config{TokenSHA256: sha("x"), Issuer: "x"}), []string{"--ws-issuer", SignedBearerToken}},
		{"audience with a capability", capability(Config{TokenSHA256: sha("x"), Audience: "x"}), []string{"--ws-audience", SignedBearerToken}},
		{"skew with a capability", capability(Config{TokenSHA256: sha("x"), ClockSkew: &minute}), []string{"--ws-max-clock-skew-seconds", SignedBearerToken}},
		{"relative token file", capability(Config{TokenFile: "relative"}), []string{"--ws-token-file", "relative", "absolute"}},
		{"missing token file", capability(Config{TokenFile: "/none/such"}), []string{"--ws-token-file", "/none/such", "no such file"}},
		{"directory as token file", capability(Config{TokenFile: t.TempDir()}), []string{"--ws-token-file", "is a directory"}},
		{"empty token file", capability(Config{TokenFile: file(t, "")}), []string{"--ws-token-file", "is empty"}},
		{"blank token file", capability(Config{TokenFile: file(t, " \r\n\t\n")}), []string{"--ws-token-file", "is empty"}},
		{"short token", capability(Config{TokenFile: file(t, "abc\n")}), []string{"--ws-token-file", "too short", "openssl rand"}},
		{"a bit short in hexadecimal digits", capability(Config{TokenFile: file(t, strings.Repeat("a", 31))}), []string{"124 bits"}},
		{"a bit short in digits", capability(Config{TokenFile: file(t, strings.Repeat("1", 38))}), []string{"125 bits"}},
		{"a bit short", capability(Config{TokenFile: file(t, strings.Repeat("x", 21))}), []string{"126 bits"}},
		{"token that everybody can read", capability(Config{TokenFile: mode(t, testToken, 0o604)}), []string{"--ws-token-file", "0604", "chmod 600"}},
		{"token that the group can read", capability(Config{TokenFile: mode(t, testToken, 0o640)}), []string{"--ws-token-file", "0640", "chmod 600"}},
		{"token that everybody can change", capability(Config{TokenFile: mode(t, testToken, 0o602)}), []string{"--ws-token-file", "0602"}},
		{"secret that everybody can read", signed(Config{SharedSecretFile: mode(t, testSecret, 0o644)}), []string{"--ws-shared-secret-file", "0644", "chmod 600"}},
		{"two lines", capability(Config{TokenFile: file(t, "a\nb\n")}), []string{"--ws-token-file", "one line"}},
		{"no ASCII", capability(Config{TokenFile: file(t, "żó")}), []string{"--ws-token-file", "ASCII"}},
		{
			"token past the limit", capability(Config{TokenFile: file(t, strings.Repeat("x", maxTokenBytes+1))}),
			[]string{"--ws-token-file", fmt.Sprint(maxTokenBytes)},
		},
		{
			"token file past the limit", capability(Config{TokenFile: file(t, strings.Repeat("\n", maxSecretBytes+1))}),
			[]string{"--ws-token-file", fmt.Sprint(maxSecretBytes)},
		},
		{"no hexadecimal digits", capability(Config{TokenSHA256: strings.Repeat("z", 64)}), []string{"--ws-token-sha256", "64 hexadecimal digits"}},
		{"too few digits", capability(Config{TokenSHA256: sha("x")[:62]}), []string{"--ws-token-sha256", "64 hexadecimal digits"}},
		{"blank digest", capability(Config{TokenSHA256: " "}), []string{"--ws-token-sha256", "64 hexadecimal digits"}},

		{"no secret", Config{Mode: SignedBearerToken}, []string{"--ws-shared-secret-file", "add"}},
		{"token file with a secret", signed(Config{TokenFile: "/x"}), []string{"--ws-token-file", CapabilityToken}},
		{"digest with a secret", signed(Config{TokenSHA256: sha("x")}), []string{"--ws-token-sha256", CapabilityToken}},
		{"relative secret file", signed(Config{SharedSecretFile: "s"}), []string{"--ws-shared-secret-file", "absolute"}},
		{"empty secret", signed(Config{SharedSecretFile: file(t, "")}), []string{"--ws-shared-secret-file", "empty"}},
		{"blank secret", signed(Config{SharedSecretFile: file(t, strings.Repeat(" ", minSecretBytes))}), []string{"--ws-shared-secret-file", "blank"}},
		{"short secret", signed(Config{SharedSecretFile: file(t, testSecret[1:]+"\n")}), []string{"--ws-shared-secret-file", "31 bytes", "at least 32"}},
		{
			"secret past the limit", signed(Config{SharedSecretFile: file(t, strings.Repeat("x", maxSecretBytes+1))}),
			[]string{"--ws-shared-secret-file", fmt.Sprint(maxSecretBytes)},
		},
		{"negative skew", signed(Config{ClockSkew: &negative}), []string{"--ws-max-clock-skew-seconds", "negative"}},
		{"blank issuer", signed(Config{Issuer: " "}), []string{"--ws-issuer", "blank"}},
		{"blank audience", signed(Config{Audience: "\t"}), []string{"--ws-audience", "blank"}},
	} {
		_, err := New(tt.c)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tt.name, err, want)
			}
		}
		if strings.Contains(err.Error(), testSecret[1:]) {
			t.Errorf("%s: the secret is in %q", tt.name, err)
		}
	}
}

func TestNoFlagsNoAuthenticator(t *testing.T) {
	if a, err := New(Config{}); a != nil || err != nil {
		t.Errorf("got a %v, error %v; want a nil, no error", a, err)
	}
}

func TestAcceptedConfigs(t *testing.T) {
	none := time.Duration(0)
	for name, c := range map[string]Config{
		"digest in capitals":                   {Mode: CapabilityToken, TokenSHA256: " " + strings.ToUpper(sha("x")) + "\n"},
		"shortest token in hexadecimal digits": {Mode: CapabilityToken, TokenFile: file(t, strings.Repeat("a", 32))},
		"shortest token in digits":             {Mode: CapabilityToken, TokenFile: file(t, strings.Repeat("1", 39))},
		"shortest token":                       {Mode: CapabilityToken, TokenFile: file(t, strings.Repeat("x", 22))},
		"token that only the user can read":    {Mode: CapabilityToken, TokenFile: mode(t, testToken, 0o400)},
		"token at the limit":                   {Mode: CapabilityToken, TokenFile: file(t, strings.Repeat("x", maxTokenBytes)+"\n")},
		"secret at the minimum":                {Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret)},
		"secret at the maximum":                {Mode: SignedBearerToken, SharedSecretFile: file(t, strings.Repeat("x", maxSecretBytes))},
		"secret that is no text":               {Mode: SignedBearerToken, SharedSecretFile: file(t, strings.Repeat("\xff", minSecretBytes))},
		"no skew":                              {Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret), ClockSkew: &none},
	} {
		if _, err := New(c); err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
		}
	}
}

func TestTokenFromAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString(testToken + "\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	_, err = os.Stat(path)
	testutil.Need(t, "/dev/fd", err, fs.ErrNotExist)
	a, err := New(Config{Mode: CapabilityToken, TokenFile: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(request("Bearer " + testToken)); err != nil {
		t.Error(err)
	}
}

func TestWithoutNewline(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n": "", "a": "a", "a\n": "a", "a\r\n": "a", "a\n\n": "a\n", "a \n": "a ", "a\r": "a\r", "\na": "\na",
	} {
		if got := string(withoutNewline([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestNothingSecretIsPrinted(t *testing.T) {
	a, err := New(Config{Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret)})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %s", a, a, a); strings.Contains(text, "107") || strings.Contains(text, "kk") {
		t.Errorf(`got %v; want a text without "107", a text without "kk"`, text)
	}
}
