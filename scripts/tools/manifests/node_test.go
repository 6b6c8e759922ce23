package manifests

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/profiles/seccomp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// The network of the pods. The test is at the address of the gateway.
	subnet  = "10.123.0.0/24"
	gateway = "10.123.0.1"
	// firstID is the node's id of the user 0 of pods with a user namespace, and idCount how many ids they have.
	firstID, idCount = 200000, 65536
	// startTime bounds how long a pod may take until it is ready on a busy machine.
	startTime = 60 * time.Second
	// pollInterval is the pause between probes, which no event announces.
	pollInterval = 100 * time.Millisecond
)

// node runs pods with podman kube play. What the kubelet does for a pod, and podman does not, is in
// playable: volumes, sidecars, variables, probes, user namespaces.
type node struct {
	dir      string            // everything is below it
	programs string            // the directory with codex
	files    map[string][]byte // of the Secrets and ConfigMaps, by NAME/KEY
	hosts    []corev1.HostAlias
}

// newNode makes images and the network. Images are made of this machine's programs, so nothing is
// pulled.
func newNode(t *testing.T, programs string) *node {
	n := &node{dir: filepath.Dir(programs), programs: programs, files: map[string][]byte{}}
	image := filepath.Join(n.dir, "image") // of registry.example/codex-exec-server
	for _, name := range []string{"codex", "codex-fs", "codex-linux-sandbox"} {
		n.copy(t, filepath.Join(programs, name), filepath.Join(image, "usr/bin", name))
	}
	tools := filepath.Join(n.dir, "tools") // in the place of debian:12
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	n.copy(t, busybox, filepath.Join(tools, "bin/busybox"))
	for _, name := range strings.Fields("cat grep id ls mkdir sh sleep touch true") {
		must(t, os.Symlink("busybox", filepath.Join(tools, "bin", name)))
	}
	// Mount points, which the images of distributions have or the runtime makes.
	for _, dir := range strings.Fields("dev etc proc sys tmp opt/codex workspace data home/agent etc/codex/tls etc/codex/tokens etc/codex/nats") {
		for _, root := range []string{image, tools} {
			must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		}
	}
	// RuntimeDefault of containerd and CRI-O forbids user namespaces, as Docker's filter does, and podman's does not. The limits
	// are lower than this machine's, which podman might not be able to raise.
	filter, err := json.Marshal(seccomp.DefaultProfile())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.dir, "seccomp.json"), filter, 0o600))
	must(t, os.WriteFile(filepath.Join(n.dir, "containers.conf"), fmt.Appendf(nil,
		"[containers]\nseccomp_profile = %q\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n", filepath.Join(n.dir, "seccomp.json")), 0o600))
	// Podman starts the test itself as the OCI runtime: see actAsRuntime.
	self, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(self, n.runtime()))
	t.Cleanup(func() {
		if out, err := n.podman("pod", "rm", "--all", "--force", "--time", "0").CombinedOutput(); err != nil {
			t.Errorf("remove the pods: %v\n%s", err, out)
		}
	})
	n.load(t, image, "registry.example/codex-exec-server:VERSION", "--change", `ENTRYPOINT ["/usr/bin/codex"]`, "--change", "USER 65532:65532")
	n.load(t, tools, "docker.io/library/debian:12", "--change", "ENV PATH=/usr/bin:/bin")
	n.run(t, "network", "create", "--subnet", subnet, "--gateway", gateway, "pods")
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) copy(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, content, 0o755))
}

// load makes an image of a directory.
func (n *node) load(t *testing.T, dir, name string, options ...string) {
	t.Helper()
	tar := exec.Command("tar", "--owner=0", "--group=0", "-C", dir, "-c", ".")
	archive, err := tar.Output()
	must(t, err)
	cmd := n.podman(slices.Concat([]string{"import", "--quiet"}, options, []string{"-", name})...)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import %s: %v\n%s", name, err, out)
	}
}

func (n *node) runtime() string { return filepath.Join(n.dir, "runc") }

func (n *node) podman(args ...string) *exec.Cmd {
	global := []string{
		"--root", filepath.Join(n.dir, "storage"), "--runroot", filepath.Join(n.dir, "run"), "--network-config-dir", filepath.Join(n.dir, "networks"),
		"--runtime", n.runtime(), "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--log-level", "error",
	}
	cmd := exec.Command("podman", append(global, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(n.dir, "containers.conf"))
	return cmd
}

func (n *node) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.podman(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// codex runs codex on the node, as a client.
func (n *node) codex(args ...string) (stdout string, err error) {
	cmd := exec.Command(filepath.Join(n.programs, "codex"), args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "HOME="+n.dir, "CODEX_HOME="+n.dir, "CODEX_CA_CERTIFICATE="+filepath.Join(n.dir, "ca.crt"),
		"CODEX_EXEC_SERVER_NOISE_REGISTRY_URL="+n.secret("client/url"), "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN="+n.secret("client/token"))
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("codex %q: %w: %s", args, err, errs.String())
	}
	return out.String(), err
}

func (n *node) secret(name string) string { return strings.TrimSpace(string(n.files[name])) }

// token makes a token of the rendezvous service.
func (n *node) token(t *testing.T, role string, environments ...string) []byte {
	t.Helper()
	file := filepath.Join(n.dir, "tokens.json")
	args := []string{"rendezvous", "token", "create", "--tokens", file, "--role", role}
	for _, e := range environments {
		args = append(args, "--environment", e)
	}
	token, err := n.codex(args...)
	must(t, err)
	n.files["rendezvous-tokens/tokens.json"], err = os.ReadFile(file)
	must(t, err)
	return []byte(token)
}

// pod is a running pod.
type pod struct {
	n    *node
	name string
	spec corev1.PodSpec // as the kustomization has it
	ip   string
}

// play runs a pod of a workload, which is called name and has an address, and waits until all its
// containers are ready. If one ends or does not become ready, play returns an error with its log.
func (n *node) play(w *workload, name, ip string) (*pod, error) {
	p := &pod{n: n, name: name, spec: w.template.Spec, ip: ip}
	object, err := n.playable(w, name)
	if err != nil {
		return p, err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return p, err
	}
	args := []string{"kube", "play", "--network", "pods", "--ip", ip}
	if users := w.template.Spec.HostUsers; users != nil && !*users {
		args = append(args, "--userns", fmt.Sprintf("auto:size=%d", idCount))
	}
	cmd := n.podman(append(args, "-")...)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("podman kube play: %w\n%s", err, out)
	}
	return p, p.await()
}

// end removes the pod, and leaves its claims.
func (p *pod) end(t *testing.T) {
	t.Helper()
	p.n.run(t, "pod", "rm", "--force", "--ignore", "--time", "1", p.name)
}

// await waits until each container answers its startup and readiness probes, as the kubelet does.
func (p *pod) await() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the kubelet does not verify either
	}}
	deadline := time.Now().Add(startTime)
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe == nil {
				continue
			}
			get := probe.HTTPGet
			url := fmt.Sprintf("%s://%s:%d%s", strings.ToLower(cmp.Or(string(get.Scheme), "http")), p.ip, portOf(&c, get.Port), get.Path)
			for {
				answer, err := client.Get(url)
				if err == nil {
					_ = answer.Body.Close()
					if answer.StatusCode < 400 {
						break
					}
					err = errors.New(answer.Status)
				}
				state, _ := p.n.podman("inspect", "--format", "{{.State.Status}}", p.name+"-"+c.Name).Output()
				if s := strings.TrimSpace(string(state)); s == "exited" || time.Now().After(deadline) {
					log, _ := p.n.podman("logs", p.name+"-"+c.Name).CombinedOutput()
					return fmt.Errorf("%s, container %s (%s): %s: %w\n%s", p.name, c.Name, s, url, err, log)
				}
				time.Sleep(pollInterval)
			}
		}
	}
	return nil
}

// playable returns a pod that podman understands, with the settings of the workload's pods. Podman
// 4.3 takes users, capabilities, filters, resources, commands, mounts and read-only roots from the
// pod. The rest is done here as the kubelet does it.
func (n *node) playable(w *workload, name string) (*corev1.Pod, error) {
	spec := w.template.Spec.DeepCopy()
	shift := int64(0)
	if spec.HostUsers != nil && !*spec.HostUsers {
		shift = firstID // the kubelet's volumes have id-mapped mounts
	}
	spec.HostUsers = nil // it is an option of podman
	spec.HostAliases = n.hosts
	spec.TopologySpreadConstraints = nil
	for _, claim := range w.claims {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + name},
		}})
	}
	for i := range spec.Volumes {
		dir, err := n.volume(&spec.Volumes[i], name, shift, *spec.SecurityContext.FSGroup)
		if err != nil {
			return nil, err
		}
		spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
	}
	object := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: w.template.Labels, Annotations: map[string]string{}}}
	// Podman runs init containers to their end.
	spec.Containers, spec.InitContainers = slices.Concat(spec.InitContainers, spec.Containers), nil
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.RestartPolicy, c.ImagePullPolicy = nil, corev1.PullNever
		c.Ports = nil                                                     // podman would publish them on the node
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = nil, nil, nil // podman would run curl in the container
		if mount := c.SecurityContext.ProcMount; mount != nil && *mount == corev1.UnmaskedProcMount {
			object.Annotations[unmasked] = c.Command[0]
		}
		filter := c.SecurityContext.SeccompProfile
		if filter == nil {
			filter = spec.SecurityContext.SeccompProfile
		}
		if filter == nil || filter.Type == corev1.SeccompProfileTypeUnconfined {
			object.Annotations["container.seccomp.security.alpha.kubernetes.io/"+c.Name] = "unconfined" // podman 4.3 does not know the field
		}
		if err := n.resolve(c, name); err != nil {
			return nil, err
		}
	}
	spec.RestartPolicy = corev1.RestartPolicyNever // an end is an error
	object.Spec = *spec
	return object, nil
}

// resolve replaces the sources of variables by values, and $(NAME) in arguments.
func (n *node) resolve(c *corev1.Container, name string) error {
	values := map[string]string{}
	for i, e := range c.Env {
		switch from := e.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			e.Value = name
		case from.SecretKeyRef != nil && n.files[from.SecretKeyRef.Name+"/"+from.SecretKeyRef.Key] != nil:
			// kubectl create secret --from-file keeps the newline at the end.
			e.Value = string(n.files[from.SecretKeyRef.Name+"/"+from.SecretKeyRef.Key])
		default:
			return fmt.Errorf("the variable %s: the source %+v does not exist", e.Name, from)
		}
		c.Env[i] = corev1.EnvVar{Name: e.Name, Value: e.Value}
		values[e.Name] = e.Value
	}
	reference := regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)
	for i, arg := range c.Args {
		c.Args[i] = reference.ReplaceAllStringFunc(arg, func(r string) string {
			if value, ok := values[r[2:len(r)-1]]; ok {
				return value
			}
			return r
		})
	}
	return nil
}

// volume makes the directory of a volume with the owners and modes that the kubelet gives it: those
// of emptyDir, and then those of fsGroup. ids are shifted in pods with a user namespace.
func (n *node) volume(v *corev1.Volume, pod string, shift, group int64) (string, error) {
	dir := filepath.Join(n.dir, "volumes", pod, v.Name)
	own := func(path string, mode os.FileMode) error {
		return errors.Join(os.Chown(path, int(shift), int(shift+group)), os.Chmod(path, mode))
	}
	files, mode := "", int32(0)
	switch {
	case v.Image != nil:
		if v.Image.Reference != "registry.example/codex-exec-server:VERSION" {
			return "", fmt.Errorf("there is no image %s", v.Image.Reference)
		}
		return filepath.Join(n.dir, "image"), nil
	case v.PersistentVolumeClaim != nil: // an empty file system at first
		dir = filepath.Join(n.dir, "claims", v.PersistentVolumeClaim.ClaimName)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		return dir, own(dir, 0o775|os.ModeSetgid)
	case v.EmptyDir != nil:
	case v.Secret != nil:
		files, mode = v.Secret.SecretName, *v.Secret.DefaultMode
	case v.ConfigMap != nil:
		files, mode = v.ConfigMap.Name, 0o644
	default:
		return "", fmt.Errorf("the volume %s has a kind that the test does not know", v.Name)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), own(dir, 0o777|os.ModeSetgid)); err != nil || files == "" {
		return dir, err
	}
	// Secrets and ConfigMaps: KEY -> ..data/KEY, and ..data -> ..TIME.
	data := filepath.Join(dir, "..2026_01_01")
	if err := errors.Join(os.Mkdir(data, 0o755), own(data, 0o755|os.ModeSetgid), os.Symlink(filepath.Base(data), filepath.Join(dir, "..data"))); err != nil {
		return "", err
	}
	found := false
	for name, content := range n.files {
		key, ok := strings.CutPrefix(name, files+"/")
		if !ok {
			continue
		}
		found = true
		path := filepath.Join(data, key)
		if err := errors.Join(os.WriteFile(path, content, 0o600), own(path, os.FileMode(mode)|0o440), os.Symlink(filepath.Join("..data", key), filepath.Join(dir, key))); err != nil {
			return "", err
		}
	}
	if !found {
		return "", fmt.Errorf("the volume %s: there is no Secret or ConfigMap %s", v.Name, files)
	}
	return dir, nil
}

// unmasked is an annotation with the program of the container that has procMount: Unmasked, which
// podman 4.3 ignores.
const unmasked = "codex.internal/unmasked"

// actAsRuntime is what podman starts instead of runc. It does what procMount: Unmasked asks for,
// and becomes runc.
func actAsRuntime() error {
	for i, arg := range os.Args {
		if arg != "--bundle" || i+1 == len(os.Args) {
			continue
		}
		path := filepath.Join(os.Args[i+1], "config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil {
			return err
		}
		annotations, _ := config["annotations"].(map[string]any)
		process, _ := config["process"].(map[string]any)
		words, _ := process["args"].([]any)
		linux, _ := config["linux"].(map[string]any)
		if len(words) > 0 && annotations[unmasked] == words[0] {
			delete(linux, "maskedPaths")
			delete(linux, "readonlyPaths")
			if text, err = json.Marshal(config); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				return err
			}
		}
	}
	// Podman starts it without a PATH.
	return errors.Join(syscall.Exec("/usr/sbin/runc", os.Args, os.Environ()), syscall.Exec("/usr/bin/runc", os.Args, os.Environ()))
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "runc" {
		fmt.Fprintln(os.Stderr, "runc:", actAsRuntime())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// certify makes an authority and a certificate for hosts.
func (n *node) certify(t *testing.T, hosts ...string) (ca, cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	authority, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	must(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: template.NotBefore, NotAfter: template.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, leaf, template, own.Public(), signer)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	return block("CERTIFICATE", authority), block("CERTIFICATE", der), block("PRIVATE KEY", private)
}

// startNATS runs a server of NATS with TLS and an account of its own for the rendezvous service. It
// returns the authority of its certificate and the credentials of a user.
func (n *node) startNATS(t *testing.T) (ca, creds []byte) {
	t.Helper()
	ca, cert, key := n.certify(t, "nats.nats.svc")
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	keyOf := func(kind nkeys.PrefixByte) (nkeys.KeyPair, string) {
		pair, err := nkeys.CreatePair(kind)
		must(t, err)
		public, err := pair.PublicKey()
		must(t, err)
		return pair, public
	}
	operator, operatorID := keyOf(nkeys.PrefixByteOperator)
	account, accountID := keyOf(nkeys.PrefixByteAccount)
	_, systemID := keyOf(nkeys.PrefixByteAccount)
	user, userID := keyOf(nkeys.PrefixByteUser)
	claims := jwt.NewAccountClaims(accountID)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	accountJWT, err := claims.Encode(operator)
	must(t, err)
	systemJWT, err := jwt.NewAccountClaims(systemID).Encode(operator)
	must(t, err)
	userJWT, err := jwt.NewUserClaims(userID).Encode(account)
	must(t, err)
	seed, err := user.Seed()
	must(t, err)
	creds, err = jwt.FormatUserConfig(userJWT, seed)
	must(t, err)
	resolver := new(server.MemAccResolver)
	must(t, errors.Join(resolver.Store(accountID, accountJWT), resolver.Store(systemID, systemJWT)))
	s, err := server.NewServer(&server.Options{
		Host: "0.0.0.0", Port: 4222, JetStream: true, StoreDir: filepath.Join(n.dir, "nats"), NoSigs: true, NoLog: true,
		TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		TrustedKeys: []string{operatorID}, SystemAccount: systemID, AccountResolver: resolver,
	})
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(startTime) {
		t.Fatal("NATS does not serve")
	}
	return ca, creds
}
