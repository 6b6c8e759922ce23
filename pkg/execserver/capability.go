package execserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/fileop/skills"
)

// discoverRoots answers capabilityRoots/discoverV1 (docs/spec/wire.md §5.10).
// Each root has a sandbox of its own; the roots with the same one are looked at
// together, because a confined helper serves one request.
func discoverRoots(ctx context.Context, c *conn, p *execproto.DiscoverParams) (result, error) {
	if len(p.Roots) > execproto.MaxCapabilityRoots {
		return nil, execproto.InvalidRequest(fmt.Sprintf("capability root discovery accepts at most %d roots", execproto.MaxCapabilityRoots))
	}
	groups, err := c.discoverGroups(ctx, p.Roots)
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
			// A confined helper is not trusted with what the client compares.
			of := &p.Roots[g.at[i]]
			r.ID, r.Path = of.ID, of.Path
			found[g.at[i]] = r
		}
	}
	return execproto.DiscoverResult{Roots: found}, nil
}

// sizeOf returns the bytes of the files of a root.
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

// discoverGroup is roots with the same sandbox.
type discoverGroup struct {
	sandbox json.RawMessage
	worker  fileWorker
	roots   []execproto.DiscoverRoot // without their sandboxes
	at      []int                    // where they are in the request
	request *fileRequest
}

// discoverGroups divides roots by sandboxes. Nothing is looked at if one of the
// sandboxes cannot be decoded.
func (c *conn) discoverGroups(ctx context.Context, roots []execproto.DiscoverRoot) ([]*discoverGroup, error) {
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
		worker, err := c.fileWorker(ctx, r.Sandbox)
		if err != nil {
			return nil, err
		}
		groups = append(groups, &discoverGroup{sandbox: r.Sandbox, worker: worker, roots: []execproto.DiscoverRoot{root}, at: []int{i}})
	}
	for _, g := range groups {
		if err := g.prepare(c.srv.home); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// prepare makes the request for the group. An error is one of a path.
func (g *discoverGroup) prepare(home string) error {
	params, err := execproto.Append(nil, &execproto.DiscoverParams{Roots: g.roots})
	if err != nil {
		return err
	}
	g.request = &fileRequest{operation: fsops.Find(execproto.MethodCapabilityRootsDiscover), json: params}
	if g.request.call, err = g.request.operation.Decode(bytes.Clone(params)); err != nil {
		return err
	}
	return g.request.call.Resolve(home)
}

// run looks at the roots of the group.
func (g *discoverGroup) run(ctx context.Context) (execproto.DiscoverResult, error) {
	r, err := g.worker.run(ctx, g.request)
	if err != nil {
		return execproto.DiscoverResult{}, err
	}
	found, err := decoded[execproto.DiscoverResult](r)
	if err == nil && len(found.Roots) != len(g.roots) {
		err = execproto.Internal("unexpected fs sandbox helper response: another number of roots")
	}
	return found, err
}
