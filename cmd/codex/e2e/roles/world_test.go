package roles

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// world is a server whose clients have tokens with roles, and directories of its user.
type world struct {
	t           *testing.T
	backend     string
	credential  *syscall.Credential // credential of the server's process; nil: that of the test
	bin         string              // path of the program, which the server's user may execute
	dir         string              // directory with all other files
	ws, beside  string              // the directory of a token, and one outside of it
	tokens      string              // path of the token file
	url         string
	descriptors int  // maximum number of descriptors of the server; 0: that of the test
	relayed     bool // clients reach the server through a rendezvous service, which has the tokens
}

// nobody is the user id of an ordinary user.
const nobody = 65534

// pair is a backend, and the user of a server with that backend.
type pair struct {
	name string
	uid  int
}

// backends returns the pairs of backend and user that tests try. The user is the test's own. If
// that is root, some pairs have an ordinary user: see testutil.Pairs.
func backends(t *testing.T) (list []pair) {
	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, nobody)
	}
	pairs := testutil.Pairs(t.Name(), users, []string{machine.Namespaces, machine.Bwrap, machine.Landlock})
	for _, uid := range users {
		for _, name := range pairs[uid] {
			list = append(list, pair{name, uid})
		}
	}
	return list
}

// eachWorld runs a test with each backend that the machine supports.
func eachWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorlds(t, backends(t), test)
}

// someWorld is eachWorld for a test that needs much processor time: see testutil.Choice.
func someWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorlds(t, testutil.Choice(t.Name(), backends(t)), test)
}

// inWorlds runs a test with each pair of a list. With the first pair it also runs the test through a rendezvous service.
// One pair is enough for that, because the server uses the same code for the permissions of a token from the service and of
// its own tokens. The worlds share nothing, so they are tested at the same time.
func inWorlds(t *testing.T, list []pair, test func(w *world)) {
	t.Helper()
	t.Parallel()
	harness.NeedSandbox(t)
	t.Run("through a rendezvous service", func(t *testing.T) {
		t.Parallel()
		machine.NeedBackendAs(t, list[0].uid, list[0].name)
		test(newWorldOf(t, list[0], true))
	})
	for _, b := range list {
		t.Run(fmt.Sprintf("%s as %d", b.name, b.uid), func(t *testing.T) {
			t.Parallel()
			machine.NeedBackendAs(t, b.uid, b.name)
			test(newWorldOf(t, b, false))
		})
	}
}

func newWorldOf(t *testing.T, b pair, relayed bool) *world {
	t.Helper()
	var credential *syscall.Credential
	if b.uid != os.Geteuid() {
		credential = &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}
	}
	w := newWorld(t, b.name, credential)
	w.relayed = relayed
	return w
}

func newWorld(t *testing.T, backend string, credential *syscall.Credential) *world {
	t.Helper()
	// Do not use /tmp, because workspace-write makes it writable.
	dir, err := os.MkdirTemp("/var/tmp", "codex-roles-")
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, backend: backend, credential: credential, dir: dir, bin: filepath.Join(dir, "bin", "codex")}
	harness.Must(t, os.Chmod(dir, 0o755))
	harness.Must(t, os.Mkdir(filepath.Dir(w.bin), 0o755))
	harness.Must(t, harness.LinkOrCopy(harness.Codex, w.bin))
	for _, name := range []string{"home", "state", "workspace", "workspace/sub", "beside", "tmp"} {
		harness.Must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		w.own(filepath.Join(dir, name))
	}
	w.ws, w.beside, w.tokens = filepath.Join(dir, "workspace"), filepath.Join(dir, "beside"), filepath.Join(dir, "home", "tokens.json")
	w.write(w.ws+"/f", "text")
	w.write(w.beside+"/secret", "secret")
	harness.Must(t, os.Symlink(w.beside, w.ws+"/link"))
	return w
}

// own gives a path to the server's user.
func (w *world) own(path string) {
	w.t.Helper()
	if w.credential != nil {
		harness.Must(w.t, os.Lchown(path, int(w.credential.Uid), int(w.credential.Gid)))
	}
}

// write creates a file of the server's user.
func (w *world) write(path, text string) {
	w.t.Helper()
	harness.Must(w.t, os.WriteFile(path, []byte(text), 0o600))
	w.own(path)
}

// command returns a command that runs codex as the server's user.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + w.dir + "/home", "CODEX_HOME=" + w.dir + "/home",
		"XDG_STATE_HOME=" + w.dir + "/state", "TMPDIR=" + w.dir + "/tmp",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.credential}
	return cmd
}

// token makes a token.
func (w *world) token(args ...string) string {
	w.t.Helper()
	create := []string{"exec-server", "token", "create", "--tokens", w.tokens}
	if w.relayed {
		create = []string{"rendezvous", "token", "create", "--tokens", w.tokens, "--environment", environment}
	}
	cmd := w.command(append(create, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("token create %v: %v: %s", args, err, &errs)
	}
	return strings.TrimSpace(string(out))
}

// serve starts the server. Its options permit Landlock to enforce workspace-write with stricter rules.
func (w *world) serve(args ...string) *exec.Cmd {
	w.t.Helper()
	args = append([]string{"--sandbox-backend", w.backend, "--sandbox-stricter"}, args...)
	if w.relayed {
		return w.register(args)
	}
	cmd := w.command(append([]string{"exec-server", "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-tokens", w.tokens}, args...)...)
	w.limit(cmd)
	out, err := cmd.StdoutPipe()
	harness.Must(w.t, err)
	w.start(cmd)
	w.url = firstLine(w.t, out)
	return cmd
}

// limit prevents a server from opening more descriptors than w.descriptors.
func (w *world) limit(cmd *exec.Cmd) {
	if w.descriptors > 0 {
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, w.descriptors), "sh"}, cmd.Args...)
	}
}

// start starts a service, which ends with the test.
func (w *world) start(cmd *exec.Cmd) {
	w.t.Helper()
	cmd.Stderr = harness.ShownOnFailure(w.t)
	harness.Must(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// firstLine returns the URL that a service prints.
func firstLine(t *testing.T, out io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(out).ReadString('\n')
	harness.Must(t, err)
	return strings.TrimSpace(line)
}

// environment is the id of the server's environment at the rendezvous service.
const environment = "box"

// executorToken is the file of the token with which the server registers.
func (w *world) executorToken() string { return w.dir + "/home/executor" }

// register starts a rendezvous service and the server, and waits until a client reaches it.
func (w *world) register(args []string) *exec.Cmd {
	w.t.Helper()
	token, reader := w.token("--role", "executor"), w.token("--role", "read")
	service := w.command("rendezvous", "--listen", "127.0.0.1:0", "--tokens", w.tokens)
	out, err := service.StdoutPipe()
	harness.Must(w.t, err)
	w.start(service)
	w.url = firstLine(w.t, out)
	w.write(w.executorToken(), token)
	cmd := w.command(append([]string{"exec-server", "--remote", w.url, "--environment-id", environment, "--rendezvous-token-file", w.executorToken()}, args...)...)
	cmd.Env = append(cmd.Env, "CODEX_RENDEZVOUS_TOKEN=not-this-one")
	w.limit(cmd)
	w.start(cmd)
	testutil.Eventually(w.t.Context(), w.t, "a client that reaches the server", func() (string, bool) {
		c, err := w.dial(reader, "")
		if err == nil {
			_ = c.Close()
		}
		return errorText(err), err == nil
	})
	return cmd
}

// options returns the options of a client with a token. The client's user may differ from the server's.
func (w *world) options(token string) execclient.Options {
	return execclient.Options{BearerToken: token, ServerUser: w.user(), RecoveryTimeout: -1}
}

// user returns the id of the server's user.
func (w *world) user() int {
	if w.credential == nil {
		return os.Geteuid()
	}
	return int(w.credential.Uid)
}

// client connects with a token.
func (w *world) client(token string) *execclient.Client {
	w.t.Helper()
	c, err := w.dial(token, "")
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// dial connects with a token. If session is not empty, it resumes that session.
func (w *world) dial(token, session string) (*execclient.Client, error) {
	w.t.Helper()
	o := w.options(token)
	o.ResumeSessionID = session
	if !w.relayed {
		return execclient.DialWebSocket(w.t.Context(), w.url, o)
	}
	d, err := harness.NewRelayDialer(w.url, token, environment, nil)
	harness.Must(w.t, err)
	return execclient.Dial(w.t.Context(), d, o)
}

// Short names for the harness's helpers for JSON objects of requests.
type object = harness.Object

var (
	uri     = harness.FileURI
	at      = harness.PathEntry
	special = harness.SpecialEntry
	with    = harness.With
)

// managed returns a sandbox that permits reading every path, with further entries.
func managed(entries ...object) object {
	return harness.ManagedSandbox(append([]object{special("root", "read")}, entries...)...)
}

func raw(t *testing.T, o object) json.RawMessage {
	t.Helper()
	if o == nil {
		return nil
	}
	text, err := json.Marshal(o)
	harness.Must(t, err)
	return text
}

// params returns the parameters to start a shell script in the workspace.
func (w *world) params(id string, sandbox object, script string) execproto.StartParams {
	return execproto.StartParams{
		ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: uri(w.ws), Env: map[string]string{"PATH": "/usr/bin:/bin"}, Sandbox: raw(w.t, sandbox),
	}
}

// run runs a process to its end, and returns the output of both streams.
func run(ctx context.Context, c *execclient.Client, params execproto.StartParams) (out string, code int, err error) {
	p, err := c.Start(ctx, params)
	if err != nil {
		return "", 0, err
	}
	defer p.Release()
	var text bytes.Buffer
	end, err := p.Stream(ctx, &text, &text)
	return text.String(), end.Code, err
}

// untouched fails the test if a file outside of the workspace has changed.
func (w *world) untouched(what string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.beside)
	harness.Must(w.t, err)
	text, err := os.ReadFile(w.beside + "/secret")
	info, e2 := os.Lstat(w.beside + "/secret")
	if len(entries) != 1 || err != nil || string(text) != "secret" || e2 != nil || info.Mode() != 0o600 {
		w.t.Errorf("%s: outside there are now %v, with %q, %v", what, entries, text, info)
	}
}

// pause is the longest time between two exchanges: the start of a process takes some tens of milliseconds.
const pause = 30 * time.Millisecond

// exchanging exchanges two names again and again until stop is called, which restores them. It
// pauses between exchanges, so that a start that was refused can succeed at the next attempt.
func exchanging(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil || n%2 == 1; n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			time.Sleep(rand.N(pause))
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
