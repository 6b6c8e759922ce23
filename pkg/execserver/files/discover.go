package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/fileop/installed"
	"codex.internal/pkg/fileop/skills"
	"codex.internal/pkg/host/codexconfig"
	"codex.internal/pkg/wire/pathuri"
)

// DiscoverRoots answers capabilityRoots/discoverV1 (docs/spec/wire.md §5.10).
// Each root has its own sandbox. Roots with equal sandboxes are searched
// together, because a confined helper serves one request.
func (f *Files) DiscoverRoots(ctx context.Context, p *execproto.DiscoverParams) (reply.Result, error) {
	if len(p.Roots) > execproto.MaxCapabilityRoots {
		return nil, execproto.InvalidRequest(fmt.Sprintf("capability root discovery accepts at most %d roots", execproto.MaxCapabilityRoots))
	}
	groups, err := f.discoverGroups(ctx, p.Roots)
	if err != nil {
		return nil, err
	}
	found := make([]execproto.CapabilityRoot, len(p.Roots))
	left := skills.MaxBytes
	for _, g := range groups {
		part, err := g.run(ctx)
		if err != nil {
			return nil, err
		}
		for i, r := range part.Roots {
			if left -= sizeOf(&r); left < 0 {
				text := fmt.Sprintf("the roots of one request hold more than %d bytes", skills.MaxBytes)
				r = execproto.CapabilityRoot{Error: &text}
			}
			// A confined helper is not trusted with the texts that the client compares.
			of := &p.Roots[g.at[i]]
			r.ID, r.Path = of.ID, of.Path
			found[g.at[i]] = r
		}
	}
	return execproto.DiscoverResult{Roots: found}, nil
}

// sizeOf returns the total size of the files of a root, in bytes.
func sizeOf(r *execproto.CapabilityRoot) int {
	n := 0
	add := func(f *execproto.CapabilityFile) {
		if f != nil {
			n += len(f.Contents)
		}
	}
	for i := range r.Skills {
		add(&r.Skills[i].Instructions)
		add(r.Skills[i].Metadata)
	}
	for i := range r.NamespaceManifests {
		add(&r.NamespaceManifests[i])
	}
	if p := r.Plugin; p != nil {
		add(p.MCPConfig)
		add(p.AppsConfig)
	}
	return n
}

// discoverGroup is a group of roots with the same sandbox.
type discoverGroup struct {
	sandbox json.RawMessage
	worker  worker
	roots   []execproto.DiscoverRoot // without their sandboxes
	at      []int                    // the roots' positions in the request
	request *Request
}

// discoverGroups groups roots by their sandboxes. If one of the sandboxes
// cannot be decoded, no root is examined.
func (f *Files) discoverGroups(ctx context.Context, roots []execproto.DiscoverRoot) ([]*discoverGroup, error) {
	var groups []*discoverGroup
next:
	for i, r := range roots {
		root := execproto.DiscoverRoot{ID: r.ID, Path: r.Path}
		for _, g := range groups {
			if bytes.Equal(g.sandbox, r.Sandbox) {
				g.roots, g.at = append(g.roots, root), append(g.at, i)
				continue next
			}
		}
		worker, err := f.worker(ctx, r.Sandbox)
		if err != nil {
			return nil, err
		}
		groups = append(groups, &discoverGroup{sandbox: r.Sandbox, worker: worker, roots: []execproto.DiscoverRoot{root}, at: []int{i}})
	}
	for _, g := range groups {
		if err := g.prepare(f.srv.Home); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// prepare makes the request for the group. An error is about one path.
func (g *discoverGroup) prepare(home string) error {
	params, err := execproto.Append(nil, &execproto.DiscoverParams{Roots: g.roots})
	if err != nil {
		return err
	}
	g.request = &Request{operation: fsops.Find(execproto.MethodCapabilityRootsDiscover), json: params}
	if g.request.call, err = g.request.operation.Decode(bytes.Clone(params)); err != nil {
		return err
	}
	return g.request.call.Resolve(home)
}

// run examines the roots of the group.
func (g *discoverGroup) run(ctx context.Context) (execproto.DiscoverResult, error) {
	r, err := g.worker.run(ctx, g.request)
	if err != nil {
		return execproto.DiscoverResult{}, err
	}
	r, free := held(r)
	defer free()
	found, err := decoded[execproto.DiscoverResult](r)
	if err == nil && len(found.Roots) != len(g.roots) {
		err = execproto.Internal("unexpected fs sandbox helper response: another number of roots")
	}
	return found, err
}

// DiscoverInstalled answers capabilities/discoverV2 (docs/spec/wire.md §5.11).
func (f *Files) DiscoverInstalled(ctx context.Context, p *execproto.InstalledParams) (reply.Result, error) {
	srv := f.srv
	if _, err := pathuri.Parse(p.Cwd, srv.Home); err != nil {
		return nil, execproto.InvalidParams("cwd: " + err.Error())
	}
	worker, err := f.worker(ctx, p.Sandbox)
	if err != nil {
		return nil, err
	}
	x := &installedFiles{worker: worker, home: srv.Home}
	return x.discover(ctx, srv.CodexHome)
}

// installedFiles finds the installed plugins and skills, with one sandbox for all.
type installedFiles struct {
	worker worker
	home   string
	answer installed.Answer
}

func (x *installedFiles) discover(ctx context.Context, codexHome string) (reply.Result, error) {
	var roots []execproto.DiscoverRoot
	add := func(id, native string) {
		roots = append(roots, execproto.DiscoverRoot{ID: id, Path: pathuri.Format(native)})
	}
	if codexHome != "" {
		add("codex-home-skills", codexHome+"/skills")
	}
	if x.home != "" {
		add("user-agent-skills", x.home+"/.agents/skills")
	}
	add("system-skills", codexconfig.SystemDirectory+"/skills")
	skills := len(roots)
	plugins := x.plugins(ctx, codexHome)
	for _, p := range plugins {
		roots = append(roots, execproto.DiscoverRoot{ID: p.ID, Path: p.Dir})
	}
	g := &discoverGroup{worker: x.worker, roots: roots}
	if err := g.prepare(x.home); err != nil {
		return nil, err
	}
	found, err := g.run(ctx)
	if err != nil {
		return nil, err
	}
	for i, p := range plugins {
		x.answer.Plugin(p, &found.Roots[skills+i], x.remoteID(ctx, p))
	}
	for i := range skills {
		root := &found.Roots[i]
		root.ID, root.Path = roots[i].ID, roots[i].Path // a confined helper is not trusted
		x.answer.Skills(root)
	}
	return x.answer.Result(), nil
}

// plugins returns the installed plugins, one version of each.
func (x *installedFiles) plugins(ctx context.Context, codexHome string) []installed.Plugin {
	if codexHome == "" {
		return nil
	}
	cache := pathuri.Format(codexHome + "/plugins/cache")
	walk, err := x.walk(ctx, cache)
	if err != nil {
		return nil // the cache does not exist, or the sandbox hides it
	}
	if len(walk.Errors) > 0 {
		x.answer.Unresolved()
	}
	entries := make(map[string]bool, len(walk.Entries))
	for _, e := range walk.Entries {
		entries[e.Path] = e.Kind == "directory"
	}
	plugins, truncated := installed.Choose(cache, entries)
	if truncated || walk.Truncated {
		x.answer.Truncated()
	}
	return plugins
}

// remoteID returns the id that a plugin has in another system, or nil. It reads the file as one
// block, so that a large file costs no more than a block.
func (x *installedFiles) remoteID(ctx context.Context, p installed.Plugin) *string {
	if p.Remote == "" {
		return nil
	}
	open := execproto.OpenParams{HandleID: "installed", Path: p.Remote, Mode: execproto.OpenRead}
	params, _ := execproto.Append(nil, &open)
	native, err := pathuri.Parse(p.Remote, x.home)
	if err != nil {
		return nil
	}
	f, err := x.worker.open(ctx, native, &OpenRequest{open, params})
	if err != nil {
		return nil
	}
	defer f.abandon()
	r, err := f.readBlock(ctx, 0, installed.MaxRemoteInstall+1)
	if err != nil {
		return nil
	}
	r, free := held(r)
	defer free()
	block, err := decoded[execproto.ReadBlockResult](r)
	if err != nil || len(block.Chunk) > installed.MaxRemoteInstall {
		return nil
	}
	return installed.ParseRemoteInstall(block.Chunk)
}

// held returns the result of a file operation, and the function that releases its memory after
// use.
func held(r reply.Result) (result reply.Result, free func()) {
	if f, ok := r.(reply.Followed); ok {
		return f.Result, f.Then
	}
	return r, func() {}
}

// decoded returns the value of a file operation's result, which a helper has encoded as JSON.
func decoded[T any, P execproto.Pointer[T]](r reply.Result) (v T, err error) {
	switch r := r.(type) {
	case reply.Encoded:
		return execproto.Decode[T, P](r)
	case T:
		return r, nil
	}
	return v, errors.New("another kind of result")
}

// walk lists the cache of plugins.
func (x *installedFiles) walk(ctx context.Context, cache string) (walk execproto.WalkResult, err error) {
	fr := &Request{operation: fsops.Find(execproto.MethodFSWalk)}
	fr.json, err = execproto.Append(nil, &execproto.WalkParams{Path: cache, Options: execproto.WalkOptions{
		MaxDepth: 2, MaxDirectories: cacheDirectories, MaxEntries: cacheEntries,
	}})
	if err != nil {
		return walk, err
	}
	if fr.call, err = fr.operation.Decode(bytes.Clone(fr.json)); err != nil {
		return walk, err
	}
	if err := fr.call.Resolve(x.home); err != nil {
		return walk, err
	}
	r, err := x.worker.run(ctx, fr)
	if err != nil {
		return walk, err
	}
	r, free := held(r)
	defer free()
	return decoded[execproto.WalkResult](r)
}
