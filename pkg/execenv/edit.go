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
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/host/safeopen"
)

// Entry is an environment in a file. Empty members are omitted.
type Entry struct {
	ID                        string
	URL, BearerToken          string
	CA, ClientCert, ClientKey string

	Rendezvous, EnvironmentID, TokenFile string

	SSH     string
	SSHArgs []string
	Codex   string

	Program string
	Args    []string
}

// append appends the entry as TOML.
func (e Entry) append(b []byte) []byte {
	b = append(b, "[[environments]]\n"...)
	for _, m := range []struct {
		name, value string
		list        []string
	}{
		{name: "id", value: e.ID}, {name: "url", value: e.URL}, {name: "auth_bearer_token", value: e.BearerToken},
		{name: "ca", value: e.CA}, {name: "client_cert", value: e.ClientCert}, {name: "client_key", value: e.ClientKey},
		{name: "rendezvous", value: e.Rendezvous}, {name: "environment_id", value: e.EnvironmentID}, {name: "token_file", value: e.TokenFile},
		{name: "ssh", value: e.SSH}, {name: "ssh_args", list: e.SSHArgs}, {name: "codex", value: e.Codex},
		{name: "program", value: e.Program}, {name: "args", list: e.Args},
	} {
		switch {
		case m.value != "":
			b = fmt.Appendf(b, "%s = %s\n", m.name, tomlString(m.value))
		case len(m.list) > 0:
			words := make([]string, len(m.list))
			for i, word := range m.list {
				words[i] = tomlString(word)
			}
			b = fmt.Appendf(b, "%s = [%s]\n", m.name, strings.Join(words, ", "))
		}
	}
	return b
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

// Add adds an environment to the file of environments in the home directory, which is created
// if it does not exist, and makes it the default if requested. The rest of the file is kept,
// with its comments. The file is replaced in one step.
func Add(home string, e Entry, makeDefault bool) (path string, err error) {
	return edit(home, func(text []byte, before Config) ([]byte, func(Config) error, error) {
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
			text = setDefault(text, e.ID)
		}
		return text, func(after Config) error {
			without := slices.DeleteFunc(slices.Clone(after.Environments), func(s Spec) bool { return s.ID == e.ID })
			if len(without)+1 != len(after.Environments) || !reflect.DeepEqual(without, before.Environments) || makeDefault && after.Default != e.ID {
				return errByHand
			}
			return nil
		}, nil
	})
}

// Remove removes an environment from the file in the home directory. If it was the default,
// the line with the default is removed, too.
func Remove(home, id string) (path string, err error) {
	return edit(home, func(text []byte, before Config) ([]byte, func(Config) error, error) {
		if s, exists := before.Find(id); !exists || s.Kind == Local {
			return nil, nil, &UnknownError{ID: id}
		}
		f, err := decodeFile(text)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(f.Environments, func(e entry) bool { return *e.ID == id })
		text, ok := cutEntry(text, at)
		if !ok {
			return nil, nil, errByHand
		}
		if before.Default == id {
			text = defaultLine.ReplaceAll(text, nil)
		}
		return text, func(after Config) error {
			want := slices.DeleteFunc(slices.Clone(before.Environments), func(s Spec) bool { return s.ID == id })
			if !reflect.DeepEqual(after.Environments, want) {
				return errByHand
			}
			return nil
		}, nil
	})
}

// errByHand means that edit does not understand the form of the file.
var errByHand = errors.New("the file is written in a way that this program cannot edit; edit it by hand")

var (
	entryHeader = regexp.MustCompile(`(?m)^[ \t]*\[\[[ \t]*environments[ \t]*\]\]`)
	anyHeader   = regexp.MustCompile(`(?m)^[ \t]*\[`)
	subHeader   = regexp.MustCompile(`^[ \t]*\[[ \t]*environments[ \t]*\.`)
	defaultLine = regexp.MustCompile(`(?m)^[ \t]*default[ \t]*=[^\n]*\n?`)
)

// setDefault sets the default in the existing line, or in a new first line.
func setDefault(text []byte, id string) []byte {
	line := "default = " + tomlString(id) + "\n"
	if at := defaultLine.FindIndex(text); at != nil {
		return slices.Concat(text[:at[0]], []byte(line), text[at[1]:])
	}
	return append([]byte(line+"\n"), text...)
}

// cutEntry removes the entry with an index, up to the next header that does not belong to it.
// Comments right before that header belong to the next entry.
func cutEntry(text []byte, index int) ([]byte, bool) {
	headers := entryHeader.FindAllIndex(text, -1)
	if index < 0 || index >= len(headers) {
		return nil, false
	}
	begin, end := headers[index][0], len(text)
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
	return slices.Concat(text[:begin], text[end:]), true
}

// edit changes the file of environments. change returns the new text and a function that
// checks the configuration in it. If the check fails, nothing is written.
func edit(home string, change func(text []byte, before Config) ([]byte, func(Config) error, error)) (string, error) {
	path := filepath.Join(home, FileName)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	text, err := safeopen.ReadFile(path, maxFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	before, err := parseFile(text, path, home)
	if err != nil {
		return path, &FileError{Path: path, Err: err}
	}
	changed, check, err := change(slices.Clone(text), before)
	if err != nil {
		return path, err
	}
	after, err := parseFile(changed, path, home)
	if err == nil {
		err = check(after)
	}
	if err != nil {
		return path, err
	}
	return path, replace(path, text, changed)
}

// replace writes the file, unless it has changed since it was read.
func replace(path string, before, text []byte) error {
	mode := fs.FileMode(0o600) // it may contain tokens
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid()) + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
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
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}
