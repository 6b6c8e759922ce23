package execenv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/host/safeopen"
)

// Entry is an environment for Editor.Add. Empty members are omitted.
type Entry struct {
	ID                        string
	URL                       string
	CA, ClientCert, ClientKey string

	Rendezvous, EnvironmentID string

	TokenFile string // for URL and Rendezvous

	SSH     string
	SSHArgs []string
	Codex   string
}

// append appends the entry as TOML.
func (e Entry) append(b []byte) []byte {
	b = append(b, "[[environments]]\n"...)
	for _, m := range []struct{ name, value string }{
		{"id", e.ID}, {"url", e.URL}, {"ca", e.CA}, {"client_cert", e.ClientCert}, {"client_key", e.ClientKey},
		{"rendezvous", e.Rendezvous}, {"environment_id", e.EnvironmentID}, {"token_file", e.TokenFile}, {"ssh", e.SSH}, {"codex", e.Codex},
	} {
		if m.value != "" {
			b = fmt.Appendf(b, "%s = %s\n", m.name, tomlString(m.value))
		}
	}
	if len(e.SSHArgs) > 0 {
		b = fmt.Appendf(b, "ssh_args = %s\n", tomlStrings(e.SSHArgs))
	}
	return b
}

// Spec returns the configuration of the environment. Relative paths are relative to the home directory.
func (e Entry) Spec(home string) (Spec, error) {
	c, err := parseFile(e.append(nil), "", home)
	if err != nil {
		return Spec{}, err
	}
	s, _ := c.Find(e.ID)
	return s, nil
}

// tomlStrings returns an array of strings of TOML.
func tomlStrings(list []string) string {
	words := make([]string, len(list))
	for i, word := range list {
		words[i] = tomlString(word)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// tomlString returns a basic string of TOML. Invalid UTF-8 becomes U+FFFD.
func tomlString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Editor changes the file of environments in the home directory. It keeps the rest of the file, with
// its comments, but writes every environment that Codex CLI cannot read as a program with arguments
// (see Spec.ConnectArgs). The file is replaced in one step, by one that only this user can read.
type Editor struct {
	Home string
	Self string // the absolute path of this program
	// KeepLocal writes include_local = true with a default. Otherwise an environment that becomes
	// the default gets include_local = false, unless the file has a line with include_local:
	// without it, Codex CLI runs commands on this machine if it does not reach the default.
	KeepLocal bool
}

// Edited is the result of an edit.
type Edited struct {
	Path string
	// Converted are the ids of older environments that Codex CLI can read now. Unreadable are those
	// that it still cannot read.
	Converted, Unreadable []string
	LocalExcluded         bool        // include_local = false was written
	Opened                fs.FileMode // the former mode of the file if other users could read or change it, else 0
}

// Add adds an environment, and makes it the default if requested. The file is created if it does not
// exist.
func (d Editor) Add(e Entry, makeDefault bool) (Edited, error) {
	return d.edit(func(text []byte, before Config) ([]byte, func(Config) error, error) {
		if _, exists := before.Find(e.ID); exists {
			return nil, nil, fmt.Errorf("the environment `%s` already exists", e.ID)
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = e.append(text)
		if makeDefault {
			text = d.setDefault(text, e.ID, before)
		}
		return text, func(after Config) error {
			if !sameWithout(after, before, e.ID) || makeDefault && after.Default != e.ID {
				return errByHand
			}
			return nil
		}, nil
	}, e.ID)
}

// Use makes an environment of the file, or the local one, the default.
func (d Editor) Use(id string) (Edited, error) {
	return d.edit(func(text []byte, before Config) ([]byte, func(Config) error, error) {
		if _, exists := before.Find(id); !exists && id != LocalID {
			return nil, nil, &UnknownError{ID: id}
		}
		return d.setDefault(text, id, before), func(after Config) error {
			if !sameWithout(after, before, "") || after.Default != id {
				return errByHand
			}
			return nil
		}, nil
	}, "")
}

// Remove removes an environment from the file. If it was the default, the line with the default is
// removed, too.
func (d Editor) Remove(id string) (Edited, error) {
	return d.edit(func(text []byte, before Config) ([]byte, func(Config) error, error) {
		if s, exists := before.Find(id); !exists || s.Kind == Local {
			return nil, nil, &UnknownError{ID: id}
		}
		f, err := decodeFile(text)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(f.Environments, func(e entry) bool { return *e.ID == id })
		begin, end, ok := entryRange(text, at)
		if !ok {
			return nil, nil, errByHand
		}
		text = slices.Concat(text[:begin], text[end:])
		if before.Default == id {
			text = setLine(text, "default", "")
		}
		return text, func(after Config) error {
			if _, still := after.Find(id); still || !sameWithout(before, after, id) {
				return errByHand
			}
			return nil
		}, nil
	}, "")
}

// sameWithout reports whether two configurations have the same environments, in the same order, apart
// from the local one and from the one with an id in the longer.
func sameWithout(longer, other Config, id string) bool {
	configured := func(c Config, but string) []Spec {
		return slices.DeleteFunc(slices.Clone(c.Environments), func(s Spec) bool { return s.Kind == Local || s.ID == but })
	}
	return slices.EqualFunc(configured(longer, id), configured(other, ""), func(a, b Spec) bool { return reflect.DeepEqual(a, b) })
}

// errByHand means that edit does not understand the form of the file.
var errByHand = errors.New("the file is written in a way that this program cannot edit; edit it by hand")

var (
	entryHeader = regexp.MustCompile(`(?m)^[ \t]*\[\[[ \t]*environments[ \t]*\]\]`)
	anyHeader   = regexp.MustCompile(`(?m)^[ \t]*\[`)
	subHeader   = regexp.MustCompile(`^[ \t]*\[[ \t]*environments[ \t]*\.`)
	addressLine = regexp.MustCompile(`^[ \t]*(url|ca|client_cert|client_key|rendezvous|environment_id|token_file|ssh|ssh_args|codex)[ \t]*=`)
)

// setDefault sets the default, and include_local as described at Editor.
func (d Editor) setDefault(text []byte, id string, before Config) []byte {
	f, err := decodeFile(text)
	if err != nil {
		return text // the caller reports it when it parses the text
	}
	_, local := before.Find(LocalID)
	switch {
	case id == LocalID && !local, d.KeepLocal:
		text = setLine(text, "include_local", "true")
	case id != LocalID && f.IncludeLocal == nil:
		text = setLine(text, "include_local", "false")
	}
	return setLine(text, "default", tomlString(id))
}

// setLine sets a member before the first table, in its line or in a new first line. An empty value
// removes the line.
func setLine(text []byte, name, value string) []byte {
	head := len(text)
	if at := anyHeader.FindIndex(text); at != nil {
		head = at[0]
	}
	line := ""
	if value != "" {
		line = name + " = " + value + "\n"
	}
	if at := regexp.MustCompile(`(?m)^[ \t]*` + name + `[ \t]*=[^\n]*\n?`).FindIndex(text[:head]); at != nil {
		return slices.Concat(text[:at[0]], []byte(line), text[at[1]:])
	}
	if line != "" && !regexp.MustCompile(`^[ \t]*[a-z_]+[ \t]*=`).Match(text) {
		line += "\n" // an empty line before what is not another member
	}
	return append([]byte(line), text...)
}

// entryRange returns where the entry with an index begins and ends: before the next header that does
// not belong to it. Comments right before that header belong to the next entry.
func entryRange(text []byte, index int) (begin, end int, ok bool) {
	headers := entryHeader.FindAllIndex(text, -1)
	if index < 0 || index >= len(headers) {
		return 0, 0, false
	}
	begin, end = headers[index][0], len(text)
	for _, next := range anyHeader.FindAllIndex(text[headers[index][1]:], -1) {
		if at := headers[index][1] + next[0]; !subHeader.Match(text[at:]) {
			end = at
			break
		}
	}
	if end < len(text) {
		for end > begin {
			start := bytes.LastIndexByte(text[:end-1], '\n') + 1
			if line := bytes.TrimSpace(text[start:end]); len(line) == 0 || line[0] != '#' {
				break
			}
			end = start
		}
	}
	return begin, end, true
}

// convert writes the environments that Codex CLI cannot read as this program with arguments. It
// leaves those alone that it cannot write so: lines of an unusual form, a token in the file, and a URL
// with a user or a query, which other users could read in the list of processes.
func (d Editor) convert(text []byte, path string) (converted, left []string, _ []byte, err error) {
	before, err := parseFile(text, path, d.Home)
	if err != nil {
		return nil, nil, text, err
	}
	f, err := decodeFile(text)
	if err != nil {
		return nil, nil, text, err
	}
	for i, e := range f.Environments {
		if !e.unknownToCodexCLI() {
			continue
		}
		s, _ := before.Find(*e.ID)
		next, ok := d.convertEntry(text, i, s)
		after, err := parseFile(next, path, d.Home)
		if !ok || err != nil || !reflect.DeepEqual(after, before) {
			left = append(left, s.ID)
			continue
		}
		text, converted = next, append(converted, s.ID)
	}
	return converted, left, text, nil
}

// convertEntry replaces the lines with the address of an entry.
func (d Editor) convertEntry(text []byte, index int, s Spec) ([]byte, bool) {
	begin, end, ok := entryRange(text, index)
	if !ok || !filepath.IsAbs(d.Self) || redact(s.URL) != s.URL || redact(s.Registry.URL) != s.Registry.URL {
		return nil, false
	}
	next := slices.Clone(text[:begin])
	program := fmt.Appendf(nil, "program = %s\nargs = %s\n", tomlString(d.Self), tomlStrings(s.ConnectArgs()))
	for line := range bytes.Lines(text[begin:end]) {
		if addressLine.Match(line) {
			line, program = program, nil
		}
		next = append(next, line...)
	}
	return append(next, text[end:]...), true
}

// edit changes the file of environments. change returns the new text and a function that checks the
// configuration in it. If the check fails, or the environment added cannot be written so that Codex CLI
// reads it, nothing is written.
func (d Editor) edit(change func(text []byte, before Config) ([]byte, func(Config) error, error), added string) (Edited, error) {
	done := Edited{Path: filepath.Join(d.Home, FileName)}
	if real, err := filepath.EvalSymlinks(done.Path); err == nil {
		done.Path = real
	}
	text, err := safeopen.ReadFile(done.Path, maxFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	before, err := parseFile(text, done.Path, d.Home)
	if err != nil {
		return done, &FileError{Path: done.Path, Err: err}
	}
	changed, check, err := change(slices.Clone(text), before)
	if err != nil {
		return done, err
	}
	if done.Converted, done.Unreadable, changed, err = d.convert(changed, done.Path); err != nil {
		return done, err
	}
	if slices.Contains(done.Unreadable, added) {
		return done, errNotForCodexCLI
	}
	done.Converted = slices.DeleteFunc(done.Converted, func(id string) bool { return id == added })
	after, err := parseFile(changed, done.Path, d.Home)
	if err == nil {
		err = check(after)
	}
	if err != nil {
		return done, err
	}
	_, had := before.Find(LocalID)
	_, has := after.Find(LocalID)
	done.LocalExcluded = had && !has
	done.Opened, err = replace(done.Path, text, changed)
	return done, err
}

// errNotForCodexCLI means that an environment cannot be written so that Codex CLI reads the file.
var errNotForCodexCLI = errors.New("it must be written as a program with arguments, because Codex CLI reads the file too, and this is not possible: " +
	"the path of this program is unknown, or the URL has a user or a query, which other users could read in the list of processes")

// replace writes the file, unless it has changed since it was read. Only this user can read the new
// file, because it may contain secrets. replace returns the former mode if other users could read or
// change the file.
func replace(path string, before, text []byte) (fs.FileMode, error) {
	var opened fs.FileMode
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		opened = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid()) + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if now, read := safeopen.ReadFile(path, maxFileBytes); err == nil && read == nil && !bytes.Equal(now, before) {
		err = fmt.Errorf("%s was changed by another program; try again", path)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(temporary))
	}
	return opened, nil
}
