package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	helperName   = "codex-fs"
	launcherName = "codex-linux-sandbox"
	// calm is the pause before each measurement: Codex CLI answers a request late
	// that follows closely on another one.
	calm = 50 * time.Millisecond
)

var backends = []string{"namespaces", "bwrap", "landlock"}

// overheads are what our sandbox may add to a plain start, in ms.
var overheads = map[string]float64{"namespaces": 3, "landlock": 1}

// policies are what a client asks for most.
var policies = []struct{ name, entries string }{
	{"read-only", special("root", "", "read")},
	{"workspace-write", strings.Join([]string{
		special("root", "", "read"), special("project_roots", "", "write"),
		special("slash_tmp", "", "write"), special("tmpdir", "", "write"),
		special("project_roots", ".git", "read"), special("project_roots", ".agents", "read"), special("project_roots", ".codex", "read"),
	}, ",")},
	// Under the others 0.169.0 reads without a sandbox.
	{"one directory denied", special("root", "", "read") + "," + special("project_roots", deniedName, "deny")},
}

// deniedName is a directory of the workspace.
const deniedName = "denied"

// special is an entry of a permission profile.
func special(kind, subpath, access string) string {
	if subpath != "" {
		subpath = `,"subpath":"` + subpath + `"`
	}
	return `{"path":{"type":"special","value":{"kind":"` + kind + `"` + subpath + `}},"access":"` + access + `"}`
}

// sandbox is the member of a request that has it confined.
func sandbox(entries, workspace string) string {
	return `"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries +
		`]},"network":"restricted"},"cwd":"file://` + workspace + `","workspaceRoots":["file://` + workspace +
		`"],"windowsSandboxLevel":"disabled","windowsSandboxPrivateDesktop":false,"useLegacyLandlock":false}`
}

// confined measures sandboxed requests, on servers of its own.
type confined struct {
	b         *bench
	subjects  []*subject
	workspace string // a small git repository that is not below /tmp
	helper    string
	bwrap     string // "": there is none
	policies  int    // that differ, so far
}

// subject is a server that confines, in its way.
type subject struct {
	server  *server
	client  *client
	backend string // of ours; "": Codex CLI
}

// confinedRows are the lines of the table for one policy.
type confinedRows struct{ first, again, start, overhead map[string]row } // by backend

func (c confinedRows) kinds() []map[string]row {
	return []map[string]row{c.first, c.again, c.start, c.overhead}
}

var (
	spawnRow  = row{"fork and exec of /bin/true", "ms", aim{}}
	bwrapRow  = row{"bare bwrap of /bin/true", "ms", aim{}}
	helperRow = row{"codex-fs alone, readFile 1 KiB", "ms", aim{most: 2}}
)

func rowsOf(policy string) confinedRows {
	rows := confinedRows{map[string]row{}, map[string]row{}, map[string]row{}, map[string]row{}}
	for _, backend := range backends {
		suffix := ", " + policy + ", " + backend
		// What starts bwrap cannot be faster than it.
		quick := aim{ratio: 1. / 8, belowRaw: backend != "bwrap"}
		rows.first[backend] = row{"sandboxed readFile 1 KiB, first" + suffix, "ms", quick}
		rows.again[backend] = row{"sandboxed readFile 1 KiB, again" + suffix, "ms", quick}
		rows.start[backend] = row{"sandboxed start to closed" + suffix, "ms", aim{}}
		rows.overhead[backend] = row{"overhead over a plain start" + suffix, "ms", aim{most: overheads[backend]}}
	}
	return rows
}

// confine starts the servers and makes the lines of the table.
func (b *bench) confine() (*confined, error) {
	q := &confined{b: b}
	wanted := map[string]bool{} // by backend
	for _, p := range policies {
		rows := rowsOf(p.name)
		for _, kind := range rows.kinds() {
			for _, backend := range backends {
				if b.wants(kind[backend].name) {
					wanted[backend] = true
				}
			}
		}
	}
	alone := false
	for _, r := range []row{spawnRow, bwrapRow, helperRow} {
		alone = alone || b.wants(r.name)
	}
	if len(wanted) == 0 && !alone {
		return q, nil
	}
	for _, r := range []row{spawnRow, bwrapRow, helperRow} {
		if b.wants(r.name) {
			b.declare(r)
		}
	}
	var err error
	if q.workspace, err = os.MkdirTemp("/var/tmp", "bench-*"); err != nil {
		return nil, err
	}
	b.bases = append(b.bases, q.workspace)
	for _, dir := range []string{".git", deniedName} {
		if err := os.Mkdir(filepath.Join(q.workspace, dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(q.file(), make([]byte, 1<<10), 0o644); err != nil {
		return nil, err
	}
	// Without it the line stays empty.
	if q.bwrap, err = exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(os.Stderr, "bench: there is no bwrap to compare with")
	}
	for _, s := range b.servers {
		if s.name != "ours" {
			if err := q.join(s, ""); err != nil {
				return nil, err
			}
			continue
		}
		q.helper = filepath.Join(filepath.Dir(s.path), helperName)
		for _, backend := range backends {
			// A backend without a row would have nowhere to note its failures. What is measured alone needs the
			// rounds of one that works for each policy.
			if !wanted[backend] && !(len(wanted) == 0 && backend == backends[0]) {
				continue
			}
			if err := q.join(s, backend); err != nil {
				return nil, err
			}
		}
	}
	return q, nil
}

func (q *confined) file() string { return filepath.Join(q.workspace, "small") }

// join starts a server like s with a backend.
func (q *confined) join(s *server, backend string) error {
	own := &server{name: s.name, path: s.path, home: s.home, dir: s.dir, bin: s.bin}
	if backend != "" {
		own.args = []string{"--sandbox-backend", backend}
	}
	if err := own.start(); err != nil {
		return err
	}
	c, err := connect(own.url)
	if err != nil {
		own.stop()
		return err
	}
	q.subjects = append(q.subjects, &subject{own, c, backend})
	return nil
}

func (q *confined) close() {
	for _, s := range q.subjects {
		s.client.close()
		s.server.stop()
	}
}

// add notes a result. One of Codex CLI stands beside each backend of ours.
func (q *confined) add(rows map[string]row, s *subject, v float64, err error) {
	for _, backend := range backends {
		r := rows[backend]
		switch {
		case s.backend != "" && s.backend != backend || !q.b.wants(r.name):
		case err != nil:
			q.b.fail(r, s.server.name, err)
		default:
			q.b.add(r, s.server.name, v)
		}
	}
}

// discount marks the results of a subject that confined nothing.
func (q *confined) discount(rows map[string]row, s *subject) {
	for _, backend := range backends {
		if name := rows[backend].name; s.backend == "" || s.backend == backend {
			if q.b.direct[name] == nil {
				q.b.direct[name] = map[string]bool{}
			}
			q.b.direct[name][s.server.name] = true
		}
	}
}

// direct tells whether a request is done by the server itself: what is
// confined can gain no privileges, which its own /proc entry says.
func (s *subject) direct(member string) (bool, error) {
	m, err := s.client.call("fs/readFile", `{"path":"file:///proc/self/status",`+member+`}`)
	if err != nil {
		return false, err
	}
	_, text, _ := bytes.Cut(m, []byte(`"dataBase64":"`))
	text, _, _ = bytes.Cut(text, []byte(`"`))
	status, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return false, fmt.Errorf("read /proc/self/status: %w", err)
	}
	return !bytes.Contains(status, []byte("NoNewPrivs:\t1")), nil
}

func (q *confined) failed(rows map[string]row, s *subject) bool {
	for _, backend := range backends {
		if (s.backend == "" || s.backend == backend) && q.b.failures[rows[backend].name][s.server.name] != "" {
			return true
		}
	}
	return false
}

// round measures everything a few times, the servers by turns.
func (q *confined) round(ctx context.Context, round int) error {
	if len(q.subjects) == 0 {
		return nil
	}
	times := 6
	if q.b.rounds == 1 {
		times = 2
	}
	for _, p := range policies {
		rows := rowsOf(p.name)
		for _, kind := range rows.kinds() {
			for _, backend := range backends {
				if q.b.wants(kind[backend].name) {
					q.b.declare(kind[backend])
				}
			}
		}
		member := sandbox(p.entries, q.workspace)
		if round == 0 {
			// What comes with the first request does not count, and what cannot
			// be done at all is found out.
			for _, s := range q.subjects {
				if _, err := q.read(s, member); err != nil {
					q.add(rows.first, s, 0, err)
					q.add(rows.again, s, 0, err)
				} else if direct, err := s.direct(member); err != nil {
					return fmt.Errorf("%s, %s: %w", s.server.name, p.name, err)
				} else if direct {
					q.discount(rows.first, s)
					q.discount(rows.again, s)
				}
				if _, err := q.start(s, plain+","+member); err != nil {
					q.add(rows.start, s, 0, err)
					q.add(rows.overhead, s, 0, err)
				}
			}
		}
		for time := range times {
			for i := range q.subjects {
				if err := ctx.Err(); err != nil {
					return err
				}
				s := q.subjects[(i+time+round)%len(q.subjects)]
				if err := q.measure(rows, s, p.entries); err != nil {
					return fmt.Errorf("%s %s, %s: %w", s.server.name, s.backend, p.name, err)
				}
			}
			if err := q.alone(ctx, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure makes a confined read under a policy that was not seen before, one
// under a policy that was, one plain start and one confined start.
func (q *confined) measure(rows confinedRows, s *subject, entries string) error {
	member := sandbox(entries, q.workspace)
	if !q.failed(rows.first, s) {
		// Ours starts a helper ahead for what comes again. One more entry, which
		// grants nothing, makes a policy a new one.
		q.policies++
		other := fmt.Sprintf(`%s,{"path":{"type":"path","path":"file:///usr/none-%d"},"access":"read"}`, entries, q.policies)
		v, err := q.read(s, sandbox(other, q.workspace))
		if err != nil {
			return err
		}
		q.add(rows.first, s, v, nil)
		if v, err = q.read(s, member); err != nil {
			return err
		}
		q.add(rows.again, s, v, nil)
	}
	if q.failed(rows.start, s) {
		return nil
	}
	without, err := q.start(s, plain)
	if err != nil {
		return err
	}
	with, err := q.start(s, plain+","+member)
	if err != nil {
		return err
	}
	q.add(rows.start, s, with, nil)
	q.add(rows.overhead, s, with-without, nil)
	return nil
}

func (q *confined) read(s *subject, member string) (float64, error) {
	time.Sleep(calm)
	return timed(func() error {
		m, err := s.client.call("fs/readFile", `{"path":"file://`+q.file()+`",`+member+`}`)
		if err == nil && len(m) < 1<<10/3*4 {
			err = fmt.Errorf("a short answer: %d bytes", len(m))
		}
		return err
	})
}

func (q *confined) start(s *subject, options string) (float64, error) {
	path := "/usr/bin:/bin"
	if s.server.bin != "" {
		path = s.server.bin + ":" + path
	}
	time.Sleep(calm)
	return timed(func() error { return runTrueIn(s.client, q.workspace, path, options) })
}

// alone measures what needs no server.
func (q *confined) alone(ctx context.Context, rows confinedRows) error {
	time.Sleep(calm)
	v, err := rawSpawn(ctx)
	if err != nil {
		return fmt.Errorf("/bin/true: %w", err)
	}
	q.note(spawnRow, v)
	if q.bwrap != "" && q.b.failures[bwrapRow.name] == nil {
		time.Sleep(calm)
		v, err := q.bare(ctx)
		if err != nil {
			q.b.fail(bwrapRow, "raw", err)
		} else {
			q.note(bwrapRow, v)
			for _, backend := range backends {
				for _, r := range []row{rows.first[backend], rows.again[backend], rows.start[backend]} {
					q.note(r, v)
				}
			}
		}
	}
	if q.helper == "" {
		return nil
	}
	time.Sleep(calm)
	v, err = timed(func() error { return q.ask(ctx) })
	if err != nil {
		return fmt.Errorf("%s: %w", q.helper, err)
	}
	if q.b.wants(helperRow.name) {
		q.b.add(helperRow, "ours", v)
	}
	return nil
}

func (q *confined) note(r row, v float64) {
	if q.b.wants(r.name) {
		q.b.add(r, "raw", v)
	}
}

// bare runs the least that bubblewrap can be asked for.
func (q *confined) bare(ctx context.Context) (float64, error) {
	cmd := exec.CommandContext(ctx, q.bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-all",
		"--proc", "/proc", "--die-with-parent", "/bin/true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return timed(func() error {
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	})
}

// ask has the helper answer one request, as the server would in the sandbox.
func (q *confined) ask(ctx context.Context) error {
	requests, request, err := os.Pipe()
	if err != nil {
		return err
	}
	defer requests.Close()
	if _, err := request.WriteString(`{"operation":"fs/readFile","params":{"path":"file://` + q.file() + `"}}` + "\n"); err != nil {
		return errors.Join(err, request.Close())
	}
	if err := request.Close(); err != nil {
		return err
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer answers.Close()
	cmd := exec.CommandContext(ctx, q.helper)
	cmd.Stdin, cmd.Stdout = requests, answer
	err = cmd.Start()
	_ = answer.Close()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answers)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return err
	}
	if !slices.Equal(text[:min(len(text), 14)], []byte(`{"status":"ok"`)) {
		return fmt.Errorf("it answers %.200s", text)
	}
	return nil
}
