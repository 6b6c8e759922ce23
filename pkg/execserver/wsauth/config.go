package wsauth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The modes of Config.Mode.
const (
	// CapabilityToken: all clients have the same token.
	CapabilityToken = "capability-token"
	// SignedBearerToken: tokens are JWTs, signed with HS256.
	SignedBearerToken = "signed-bearer-token"
)

// Config holds the values of the flags; the zero value of a field means that the
// flag was not given.
type Config struct {
	// Mode is --ws-auth.
	Mode string

	// TokenFile is --ws-token-file: the absolute path of a file with the capability token.
	// Blanks and newlines around the token are ignored. The file is read again when it changes.
	TokenFile string
	// TokenSHA256 is --ws-token-sha256: the SHA-256 of the capability token in hexadecimal
	// digits, instead of TokenFile.
	TokenSHA256 string

	// TokensFile is --ws-tokens: a file of tokens with roles, instead of TokenFile and
	// TokenSHA256.
	TokensFile string

	// SharedSecretFile is --ws-shared-secret-file: the absolute path of a file with the secret,
	// of at least 32 bytes. A newline at the end of the file is not part of the secret.
	SharedSecretFile string
	// Issuer is --ws-issuer: the value that the claim iss must have.
	Issuer string
	// Audience is --ws-audience: the value that the claim aud must contain.
	Audience string
	// ClockSkew is --ws-max-clock-skew-seconds: how long exp may have passed, and how far nbf
	// may be in the future; nil: DefaultClockSkew.
	ClockSkew *time.Duration

	// Log gets a record when TokenFile or SharedSecretFile was read again, or cannot be read; nil: no log.
	Log *slog.Logger
}

// New returns the authenticator for a configuration, or nil if the configuration has no Mode.
// It reads the file of the secret once: a new secret needs a new authenticator. An error names
// the flag and the remedy.
func New(c Config) (*Authenticator, error) { return newAt(c, time.Now) }

func newAt(c Config, now func() time.Time) (*Authenticator, error) {
	switch c.Mode {
	case "":
		if flag := firstGiven(append(c.capabilityFlags(), c.signedFlags()...)); flag != "" {
			return nil, fmt.Errorf("%s has no effect without --ws-auth; add --ws-auth %s or --ws-auth %s, or leave it out",
				flag, CapabilityToken, SignedBearerToken)
		}
		return nil, nil
	case CapabilityToken:
		if flag := firstGiven(c.signedFlags()); flag != "" {
			return nil, fmt.Errorf("%s belongs to --ws-auth %s, not to %s; leave it out or change the mode", flag, SignedBearerToken, CapabilityToken)
		}
		return newCapability(c)
	case SignedBearerToken:
		if flag := firstGiven(c.capabilityFlags()); flag != "" {
			return nil, fmt.Errorf("%s belongs to --ws-auth %s, not to %s; leave it out or change the mode", flag, CapabilityToken, SignedBearerToken)
		}
		return newSigned(c, now)
	default:
		return nil, fmt.Errorf("unknown --ws-auth %q; use %s or %s", c.Mode, CapabilityToken, SignedBearerToken)
	}
}

// flag is a flag, and whether the user has given it.
type flag struct {
	name  string
	given bool
}

func (c *Config) capabilityFlags() []flag {
	return []flag{
		{"--ws-token-file", c.TokenFile != ""},
		{"--ws-token-sha256", c.TokenSHA256 != ""},
		{"--ws-tokens", c.TokensFile != ""},
	}
}

func (c *Config) signedFlags() []flag {
	return []flag{
		{"--ws-shared-secret-file", c.SharedSecretFile != ""},
		{"--ws-issuer", c.Issuer != ""},
		{"--ws-audience", c.Audience != ""},
		{"--ws-max-clock-skew-seconds", c.ClockSkew != nil},
	}
}

func firstGiven(flags []flag) string {
	for _, f := range flags {
		if f.given {
			return f.name
		}
	}
	return ""
}

func newCapability(c Config) (*Authenticator, error) {
	a := &Authenticator{mode: CapabilityToken}
	switch {
	case c.TokensFile != "" && (c.TokenFile != "" || c.TokenSHA256 != ""):
		return nil, errors.New("--ws-tokens excludes --ws-token-file and --ws-token-sha256; give one of them")
	case c.TokensFile != "":
		if !filepath.IsAbs(c.TokensFile) {
			return nil, fmt.Errorf("--ws-tokens must be an absolute path, not %q; write it out from /", c.TokensFile)
		}
		a.tokens = OpenTokens(c.TokensFile)
		if err := a.tokens.Read(); err != nil {
			return nil, fmt.Errorf("--ws-tokens: %w", err)
		}
	case c.TokenFile != "" && c.TokenSHA256 != "":
		return nil, errors.New("--ws-token-file and --ws-token-sha256 exclude each other; give one of them")
	case c.TokenFile != "":
		file, err := openSecret("--ws-token-file", c.TokenFile, c.Log, checkCapability(c.TokenFile))
		if err != nil {
			return nil, err
		}
		a.capability = &capability{file: file}
	case c.TokenSHA256 != "":
		digest, err := hex.DecodeString(strings.TrimSpace(c.TokenSHA256))
		if err != nil || len(digest) != sha256.Size {
			const format = "--ws-token-sha256 must be the SHA-256 of the token as %d hexadecimal digits; `printf %%s TOKEN | sha256sum` prints it"
			return nil, fmt.Errorf(format, 2*sha256.Size)
		}
		a.capability = &capability{digest: [sha256.Size]byte(digest)}
	default:
		return nil, fmt.Errorf("--ws-auth %s needs a token; add --ws-token-file FILE, --ws-token-sha256 HEX or --ws-tokens FILE", CapabilityToken)
	}
	return a, nil
}

func newSigned(c Config, now func() time.Time) (*Authenticator, error) {
	if c.SharedSecretFile == "" {
		return nil, fmt.Errorf("--ws-auth %s needs the secret that signs the tokens; add --ws-shared-secret-file FILE", SignedBearerToken)
	}
	secret, err := openSecret("--ws-shared-secret-file", c.SharedSecretFile, c.Log, func(data []byte) ([]byte, error) {
		data = withoutNewline(data)
		switch {
		case len(bytes.TrimSpace(data)) == 0:
			return nil, fmt.Errorf("--ws-shared-secret-file %s: the file is empty or blank; put the secret into it", c.SharedSecretFile)
		case len(data) < minSecretBytes:
			const format = "--ws-shared-secret-file %s: the secret has %d bytes and needs at least %d; make one with `openssl rand -hex 32`"
			return nil, fmt.Errorf(format, c.SharedSecretFile, len(data), minSecretBytes)
		}
		return data, nil
	})
	if err != nil {
		return nil, err
	}
	skew := DefaultClockSkew
	if c.ClockSkew != nil {
		skew = *c.ClockSkew
	}
	if skew < 0 {
		return nil, errors.New("--ws-max-clock-skew-seconds must not be negative; 0 allows no difference")
	}
	a := &Authenticator{mode: SignedBearerToken, secret: secret, parser: newParser(skew, now), now: now, skew: skew}
	if a.issuer, err = expected("--ws-issuer", c.Issuer); err != nil {
		return nil, err
	}
	if a.audience, err = expected("--ws-audience", c.Audience); err != nil {
		return nil, err
	}
	return a, nil
}

// expected returns the value of a flag without blanks at its ends. A value that consists of
// blanks is an error, because it would disable the check that the user has requested.
func expected(name, value string) (string, error) {
	trimmed := strings.TrimSpace(value)
	if trimmed == "" && value != "" {
		return "", fmt.Errorf("%s is blank; give the value that tokens must have, or leave it out", name)
	}
	return trimmed, nil
}

// withoutNewline returns data without a final newline, which text editors add.
func withoutNewline(data []byte) []byte {
	if line, ok := bytes.CutSuffix(data, []byte("\n")); ok {
		return bytes.TrimSuffix(line, []byte("\r"))
	}
	return data
}

// checkPrivate returns an error for a file that other users may read or change. The file's
// group may read it if it belongs to another user, such as root, because services get their
// secrets that way.
func checkPrivate(name, path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return nil
	}
	mode, forbidden := info.Mode().Perm(), os.FileMode(0o027) // the group may read
	if ownedBySelf(info) {
		forbidden = 0o077
	}
	if mode&forbidden != 0 {
		return fmt.Errorf("%s %s: other users may read or change the file (mode %04o), and anybody who knows the secret can run commands; "+
			"`chmod 600 %s` keeps it private", name, path, mode, path)
	}
	return nil
}

// readSecret reads the file that a flag names, of at most maxSecretBytes. The file may be a
// pipe, for example from process substitution <(…) in a shell.
func readSecret(name, path string) ([]byte, os.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, nil, fmt.Errorf("%s must be an absolute path, not %q; write it out from /", name, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := checkPrivate(name, path, info); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxSecretBytes:
		return nil, nil, fmt.Errorf("%s %s: the file exceeds %d bytes; is it the right one?", name, path, maxSecretBytes)
	}
	return data, info, nil
}
