// Package codexconfig reads the configuration of the machine that a server runs
// on: config.toml of the system, of the server's user and of trusted projects, and
// the administrator's requirements. It returns selected parts of them as layers,
// which the caller merges (docs/spec/wire.md §7.4).
//
//	m := codexconfig.Machine{System: "/etc/codex", Home: home}
//	result, err := m.Read(ctx, codexconfig.Query{
//		Cwd:    "/srv/project",
//		Config: [][]string{{"mcp_servers"}},
//	})
//
// A project is hostile until the user's configuration trusts it. In an untrusted project, only its
// `.git` file is read, and only the names in the project are looked up. Files are opened without
// waiting, so that a FIFO in place of a file causes an error. All functions are safe for concurrent
// use. The package keeps no state between calls.
package codexconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"codex.internal/pkg/host/safeopen"
)

// Machine names the directories of configuration files, as absolute paths.
type Machine struct {
	// System contains the administrator's files; usually it is SystemDirectory.
	System string
	// Home is CODEX_HOME of the server's user. It need not exist.
	Home string
}

// SystemDirectory is the directory of the administrator's files.
const SystemDirectory = "/etc/codex"

// Query selects the parts to read.
type Query struct {
	// Cwd is a directory of the project to read, absolute and clean. It need not exist.
	Cwd string
	// Config and Requirements are the paths of the keys to select from config.toml and from
	// requirements.toml. No path may be empty.
	Config, Requirements [][]string
}

// Layer is the selected part of one file.
type Layer struct {
	Source  string // the file, for people
	BaseDir string // the file's directory, to which its relative paths refer
	TOML    string // a document
}

// Stack has the layers of one kind, the lowest first.
type Stack struct {
	Layers []Layer
	// System is how many layers, at the beginning, are the administrator's layers that the user may
	// override.
	System int
}

// Result is the answer to a Query.
type Result struct{ Config, Requirements Stack }

// reader is the state of one call of Read.
type reader struct {
	ctx   context.Context
	m     Machine
	bytes int // of the files read so far
	text  int // of the selected parts

	// system, user and managed are the config.toml files of the machine; nil: the file is missing.
	system, user, managed *document
}

// Read reads the files again at each call. A file that is missing, or of which no part is selected,
// gives no layer. If a file cannot be read or parsed, Read fails with an error that names the file.
func (m Machine) Read(ctx context.Context, q Query) (Result, error) {
	r := &reader{ctx: ctx, m: m}
	for _, file := range []struct {
		to   **document
		path string
	}{
		{&r.system, filepath.Join(m.System, "config.toml")},
		{&r.user, filepath.Join(m.Home, "config.toml")},
		{&r.managed, filepath.Join(m.System, "managed_config.toml")},
	} {
		var err error
		if *file.to, err = r.read(file.path); err != nil {
			return Result{}, err
		}
	}
	projects, err := r.projects(q.Cwd)
	if err != nil {
		return Result{}, err
	}
	config, err := r.config(newSelection(q.Config), projects)
	if err != nil {
		return Result{}, err
	}
	requirements, err := r.requirements(newSelection(q.Requirements))
	return Result{Config: config, Requirements: requirements}, err
}

// config returns the layers of config.toml.
func (r *reader) config(s selection, projects []*document) (Stack, error) {
	var stack Stack
	if err := r.add(&stack, s, "system", r.system); err != nil {
		return stack, err
	}
	stack.System = len(stack.Layers)
	if err := r.add(&stack, s, "user", r.user); err != nil {
		return stack, err
	}
	for _, d := range projects {
		if err := r.add(&stack, s, "project", d); err != nil {
			return stack, err
		}
	}
	err := r.add(&stack, s, "legacy managed_config.toml", r.managed)
	return stack, err
}

// requirements returns the layers of requirements.toml. It derives the last layer from the managed
// configuration.
func (r *reader) requirements(s selection) (Stack, error) {
	var stack Stack
	d, err := r.read(filepath.Join(r.m.System, "requirements.toml"))
	if err != nil {
		return stack, err
	}
	if err := r.add(&stack, s, "", d); err != nil {
		return stack, err
	}
	stack.System = len(stack.Layers)
	if policy, ok := r.managed.text("approval_policy"); ok {
		implied := &document{path: r.managed.path, root: newTable()}
		text := append(appendString([]byte("["), policy), ']')
		implied.root.set("allowed_approval_policies", &value{text: string(text)})
		err = r.add(&stack, s, "", implied)
	}
	return stack, err
}

// add adds the selected part of a document to a stack. kind is the beginning of the layer's source.
func (r *reader) add(stack *Stack, s selection, kind string, d *document) error {
	if d == nil {
		return nil
	}
	part := s.of(d.root)
	if len(part.keys) == 0 {
		return nil
	}
	text, err := render(part, maxSelected-r.text)
	r.text += len(text)
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	source := d.path
	if kind != "" {
		source = kind + " (" + d.path + ")"
	}
	stack.Layers = append(stack.Layers, Layer{Source: source, BaseDir: filepath.Dir(d.path), TOML: text})
	return nil
}

// read reads a file. It returns nil if the file does not exist.
func (r *reader) read(path string) (*document, error) { return r.readAs(path, path) }

// readAs reads the file at path. Results and errors use name as its path.
func (r *reader) readAs(path, name string) (*document, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, err
	}
	text, err := safeopen.ReadFile(path, maxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, cause(err))
	}
	if r.bytes += len(text); r.bytes > maxTotalBytes {
		return nil, fmt.Errorf("%s: the configuration files have more than %d bytes together", name, maxTotalBytes)
	}
	return parse(name, text)
}

// cause returns an error without the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
