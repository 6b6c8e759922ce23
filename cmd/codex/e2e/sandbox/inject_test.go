package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
)

// registry serves a git repository, an npm package and a Python package to requests
// with the credential.
func registry(t *testing.T, host, credential string) (origin, ca string) {
	t.Helper()
	repository := filepath.Join(t.TempDir(), "r")
	script := `git init -q -b main "$1" && cd "$1" && echo cloned >file && git add file &&
		git -c user.name=a -c user.email=a@a.test commit -qm first && git update-server-info`
	out, err := exec.Command("sh", "-ec", script, "sh", repository).CombinedOutput()
	if err != nil {
		t.Fatalf("got error %v, stdout %s; want no error", err, out)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "welcome", r.Header["Authorization"])
	})
	reflects(mux)
	mux.Handle("/git/", http.StripPrefix("/git/", http.FileServer(http.Dir(filepath.Join(repository, ".git")))))
	module := npmPackage(t)
	mux.HandleFunc("/thing", func(w http.ResponseWriter, r *http.Request) {
		sum := sha512.Sum512(module)
		_, _ = fmt.Fprintf(w, `{"name":"thing","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"thing","version":"1.0.0","dist":{
			"integrity":"sha512-%s","tarball":"https://%s/thing.tgz"}}}}`, base64.StdEncoding.EncodeToString(sum[:]), r.Host)
	})
	mux.HandleFunc("/thing.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(module) })
	wheel := pythonPackage(t)
	mux.HandleFunc("/simple/thing/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".whl") {
			_, _ = w.Write(wheel)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>`)
	})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+credential {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, host)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	harness.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	harness.Must(t, err)
	return net.JoinHostPort(host, port), ca
}

// certificate makes a self-signed certificate.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	if address := net.ParseIP(host); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	harness.Must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func npmPackage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	text := `{"name":"thing","version":"1.0.0","description":"installed"}`
	harness.Must(t, w.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(text))}))
	_, err := io.WriteString(w, text)
	harness.Must(t, err)
	harness.Must(t, w.Close())
	harness.Must(t, z.Close())
	return b.Bytes()
}

func pythonPackage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"thing.py":                      "print('imported')\n",
		"thing-1.0.dist-info/METADATA":  "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
		"thing-1.0.dist-info/WHEEL":     "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"thing-1.0.dist-info/RECORD":    "thing.py,,\nthing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/WHEEL,,\nthing-1.0.dist-info/RECORD,,\n",
		"thing-1.0.dist-info/INSTALLER": "test\n",
	} {
		f, err := w.Create(name)
		harness.Must(t, err)
		_, err = io.WriteString(f, text)
		harness.Must(t, err)
	}
	harness.Must(t, w.Close())
	return b.Bytes()
}

// keeper is a server that injects the credential at one host.
type keeper struct {
	url, origin, workspace, home, file string
	log                                string // path of its log
	// credential is created when the test runs, so that no program contains it. pattern matches the
	// credential and not itself.
	credential, pattern string
}

func keep(t *testing.T, backend, host string) *keeper {
	t.Helper()
	k := &keeper{}
	var ca string
	text := rand.Text()
	k.credential, k.pattern = "hush-"+text, "[h]ush-"+text
	k.origin, ca = registry(t, host, k.credential)
	k.workspace, k.home = harness.Places(t)
	k.file = filepath.Join(k.home, "secrets", "token")
	k.log = filepath.Join(t.TempDir(), "log")
	harness.Must(t, os.Mkdir(filepath.Dir(k.file), 0o700))
	harness.Must(t, os.WriteFile(k.file, []byte(k.credential+"\n"), 0o600))
	policy := filepath.Join(k.home, "egress.toml")
	text = fmt.Sprintf("default = 'allow'\nprivate_addresses = true\n[[inject]]\nhost = '%s'\nheader = 'Authorization'\nscheme = 'Bearer'\n"+
		"value_file = '%s'\nplaceholder_env = 'THING_TOKEN'\nupstream_ca = '%s'\n", k.origin, k.file, ca)
	harness.Must(t, os.WriteFile(policy, []byte(text), 0o600))
	log, err := os.Create(k.log)
	harness.Must(t, err)
	defer log.Close()
	cmd := exec.Command(harness.Codex, "exec-server", "--listen", "ws://127.0.0.1:0", "--egress-policy", policy,
		"--sandbox-backend", backend, "--log-level", "debug")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+k.home)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(k.log)
		t.Fatalf("got error %v, text %s; want no error", err, text)
	}
	k.url = strings.TrimSpace(line)
	return k
}

// arguments returns the arguments of codex that run a script in a sandbox of the server. In the
// script, ORIGIN stands for the host of the credential.
func (k *keeper) arguments(policy, script string) []string {
	return []string{
		"remote", "run", "--url", k.url, "--cwd", k.workspace, "--sandbox", policy, "--allow-domain", "localhost", "--allow-domain", "127.0.0.1",
		"--", "sh", "-c", strings.ReplaceAll(script, "ORIGIN", k.origin),
	}
}

// TestInjectedPrograms: real programs use a credential that they do not have. They trust the proxy
// because of the variables that they read.
func TestInjectedPrograms(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	name, address := keep(t, "auto", "localhost"), keep(t, "auto", "127.0.0.1")
	for _, tt := range []struct{ program, script, want string }{
		{"curl", `curl -fsS https://ORIGIN/echo`, "welcome"},
		{"curl", `curl -fsS -H "Authorization: Bearer $THING_TOKEN" https://ORIGIN/echo`, "welcome"},
		{"curl", `curl -fsS --socks5-hostname "${ALL_PROXY#socks5h://}" https://ORIGIN/echo`, "welcome"},
		{"git", `git clone -q https://ORIGIN/git/ copy && cat copy/file`, "cloned"},
		{"python3", `python3 -c 'import urllib.request as r; print(r.urlopen("https://ORIGIN/echo").read())'`, "welcome"},
		{"wget", `wget -qO- --ca-certificate "$SSL_CERT_FILE" https://ORIGIN/echo`, "welcome"},
		{"npm", `npm install --registry https://ORIGIN --cache "$PWD/.npm" --no-audit --no-fund thing >npm.log 2>&1 || cat npm.log
			cat node_modules/thing/package.json`, "installed"},
		{"pip3", `python3 -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --dest lib --index-url https://ORIGIN/simple thing
			PYTHONPATH=lib/thing-1.0-py3-none-any.whl python3 -c "import thing"`, "imported"},
	} {
		if _, err := exec.LookPath(tt.program); err != nil && tt.program != "git" {
			t.Logf("%s is not installed, and was not tried", tt.program)
			continue
		}
		for _, k := range []*keeper{name, address} {
			if k == address && tt.program == "npm" {
				continue // npm does not finish if the registry has no name
			}
			out, errs, code := harness.Run(t, "", k.arguments("workspace-write", "export HOME=$PWD; "+tt.script)...)
			if code != 0 || !strings.Contains(out, tt.want) || strings.Contains(out+errs, k.credential) {
				t.Errorf("%s: %s: exit code %d, %q, %s", k.origin, tt.script, code, out, errs)
			}
		}
	}
}

// holding is a script that sends requests, prints all parts of the credential that it can find, and
// waits for the end of its input while the test inspects it. The pattern differs from the credential.
const holding = `
python3 -u -c '
import os, sys, urllib.request as r
seen = r.urlopen(r.Request("https://ORIGIN/echo", headers={"Authorization": "Bearer " + os.environ["THING_TOKEN"]})).read()
print(seen.decode())
print("looking")
os.system("cat FILE; ls SECRETS; grep -rasl \"PATTERN\" HOME . /proc/[0-9]*/environ /proc/[0-9]*/cmdline")
os.system("echo x >>\"$SSL_CERT_FILE\"; rm -f \"$SSL_CERT_FILE\"; mv \"${SSL_CERT_FILE%/*}\" moved; test -s \"$SSL_CERT_FILE\" && echo kept")
print("ready", flush=True)
sys.stdin.read()
'`

// TestCredentialsStayOutside: a sandbox uses a credential. The credential is not in the memory,
// environment, files or output of the sandbox, nor in the server's log. The same search finds the
// placeholder.
func TestCredentialsStayOutside(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		for _, policy := range []string{"read-only", "workspace-write"} {
			t.Run(policy, func(t *testing.T) { staysOutside(t, keep(t, backend, "127.0.0.1"), policy) })
		}
	})
}

func staysOutside(t *testing.T, k *keeper, policy string) {
	t.Helper()
	script := strings.NewReplacer("PATTERN", k.pattern, "cat FILE", "cat "+k.file, "SECRETS", filepath.Dir(k.file), " HOME ", " "+k.home+" ").Replace(holding)
	cmd := exec.Command(harness.Codex, k.arguments(policy, script)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	var out strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if lines.Text() == "ready" {
			break
		}
	}
	if want := "welcome [Bearer " + strings.Repeat("*", len(k.credential)) + "]\n\nlooking\nkept\nready\n"; out.String() != want {
		t.Errorf("the command says %q, want %q; %s", out.String(), want, errs.String())
	}
	bundles, err := filepath.Glob(filepath.Join(k.home, "proxy", "*", "*"))
	if err != nil || len(bundles) != 1 {
		t.Errorf("the bundles of one process: %q, %v", bundles, err)
	}
	searchProcesses(t, k)
	harness.Must(t, in.Close())
	rest, err := io.ReadAll(stdout)
	harness.Must(t, err)
	if err := cmd.Wait(); err != nil {
		t.Errorf("got error %v, stderr %s; want no error", err, errs.String())
	}
	log, err := os.ReadFile(k.log)
	harness.Must(t, err)
	for what, text := range map[string]string{"output": out.String() + string(rest) + errs.String(), "log": string(log)} {
		if strings.Contains(text, k.credential) {
			t.Errorf("the credential is in the %s: %s", what, text)
		}
	}
	harness.Eventually(t, "bundles", func() []string {
		left, _ := filepath.Glob(filepath.Join(k.home, "proxy", "*"))
		return left
	})
}

// searchProcesses searches for the credential in the environment and the memory of all processes of
// the sandbox. These are the processes that have the variable of the placeholder, and the workspace
// as their directory.
func searchProcesses(t *testing.T, k *keeper) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	harness.Must(t, err)
	searched := 0
	for _, dir := range list {
		environ, err := os.ReadFile(dir + "/environ")
		at := bytes.Index(environ, []byte("THING_TOKEN=codex-placeholder-"))
		if err != nil || at < 0 || !bytes.Contains(environ, []byte(filepath.Join(k.home, "proxy"))) {
			continue
		}
		placeholder, _, _ := bytes.Cut(environ[at+len("THING_TOKEN="):], []byte{0})
		if bytes.Contains(environ, []byte(k.credential)) {
			t.Errorf("the credential is in %s/environ", dir)
		}
		found, has := searchMemory(t, dir, placeholder, []byte(k.credential))
		if has {
			t.Errorf("the credential is in the memory of %s", dir)
		}
		if found {
			searched++
		}
	}
	if searched < 2 { // at least sh and python3
		t.Errorf("the placeholder was found in %d processes: the search finds nothing", searched)
	}
}

// searchMemory reports whether the memory of a process contains the placeholder (found) and the
// credential (has).
func searchMemory(t *testing.T, dir string, placeholder, credential []byte) (found, has bool) {
	t.Helper()
	mem, err := os.Open(dir + "/mem")
	testutil.Need(t, "permission to read the memory of a sandbox", err, syscall.EACCES, syscall.EPERM)
	defer mem.Close()
	maps, err := os.ReadFile(dir + "/maps")
	testutil.Need(t, "permission to read the memory of a sandbox", err, syscall.EACCES, syscall.EPERM)
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		begin, beginErr := strconv.ParseInt(from, 16, 64)
		end, endErr := strconv.ParseInt(to, 16, 64)
		if beginErr != nil || endErr != nil || !strings.HasPrefix(fields[1], "r") {
			continue // memory of the kernel, or not readable
		}
		text, err := io.ReadAll(io.NewSectionReader(mem, begin, end-begin))
		if err != nil && len(text) == 0 {
			continue // a special region such as [vvar]
		}
		found = found || bytes.Contains(text, placeholder)
		has = has || bytes.Contains(text, credential)
	}
	return found, has
}
