package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPlay runs the pods of all kustomizations, and a command in each through the rendezvous
// service: two nodes of it, which share NATS. Executors connect to the first, and the client to the
// second.
func TestPlay(t *testing.T) {
	programs := os.Getenv("CODEX_TEST_PROGRAMS")
	if programs == "" {
		t.Skip("it runs pods, for which it needs root and podman: run scripts/manifests")
	}
	n := newNode(t, programs)
	meet := render(t, rendezvous).workloads[0]
	first, second := "10.123.0.10", "10.123.0.11"
	n.hosts = []corev1.HostAlias{{IP: first, Hostnames: []string{"rendezvous.codex.svc"}}, {IP: gateway, Hostnames: []string{"nats.nats.svc"}}}
	n.files["rendezvous-nats/ca.crt"], n.files["rendezvous-nats/user.creds"] = n.startNATS(t)
	ca, cert, key := n.certify(t, "rendezvous.codex.svc", second)
	n.files["rendezvous-tls/tls.crt"], n.files["rendezvous-tls/tls.key"], n.files["rendezvous-ca/ca.crt"] = cert, key, ca
	must(t, os.WriteFile(filepath.Join(n.dir, "ca.crt"), ca, 0o600))
	n.files["client/url"] = []byte("https://" + second + ":8766")
	n.files["client/token"] = n.token(t, "admin", "*")
	everywhere, team := n.token(t, "executor", "workspace-*", "application", "userns-*"), n.token(t, "executor", "team-*")
	for name, ip := range map[string]string{"rendezvous-a": first, "rendezvous-b": second} {
		if _, err := n.play(meet, name, ip); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		kustomization, workload string
		pod, ip                 string
		token                   []byte
		environment, dir        string
		seccomp                 string // in /proc/PID/status: 2 with a filter
	}{
		{restricted, "workspace", "workspace-0", "10.123.0.20", everywhere, "workspace-0", "/workspace", "2"},
		{restricted, "application", "application-x", "10.123.0.21", everywhere, "application", "/data", "2"},
		{userNamespaces, "userns-workspace", "userns-workspace-0", "10.123.0.22", everywhere, "userns-workspace-0", "/workspace", "0"},
		{userNamespaces, "userns-application", "userns-application-x", "10.123.0.23", everywhere, "userns-application", "/data", "0"},
		{fifty, "team-workspace", "team-workspace-0", "10.123.0.24", team, "team-workspace-0", "/workspace", "2"},
		{fifty, "team-workspace", "team-workspace-49", "10.123.0.25", team, "team-workspace-49", "/workspace", "2"},
	} {
		t.Run(tt.pod, func(t *testing.T) {
			n.files["executor/token"] = tt.token
			w := render(t, tt.kustomization).workload(t, tt.workload)
			p, err := n.play(w, tt.pod, tt.ip)
			defer p.end(t)
			if err != nil {
				t.Fatal(err)
			}
			p.check(t, tt.environment, tt.dir, tt.seccomp)
			if tt.pod != "workspace-0" {
				return
			}
			// The claim outlives the pod.
			p.end(t)
			if _, err = n.play(w, tt.pod, tt.ip); err != nil {
				t.Fatal(err)
			}
			p.expect(t, tt.environment, "hello\n", "--", "cat", tt.dir+"/sandboxed")
		})
	}
	for pod, tt := range map[string]struct {
		name   string
		token  []byte
		change func(*corev1.PodSpec)
		want   string // in the error
	}{
		"workspace-1": {"with the token of another team", team, func(*corev1.PodSpec) {}, "the token is not good for environment"},
		// A new volume is empty: CODEX_HOME must be made.
		"workspace-2": {"with --require-home", everywhere, func(p *corev1.PodSpec) {
			p.Containers[0].Args = append(p.Containers[0].Args, "--require-home")
		}, "CODEX_HOME"},
		"workspace-3": {"without its volume", everywhere, func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = slices.DeleteFunc(p.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "work" })
		}, "CODEX_HOME"},
		"workspace-4": {"that trusts no authority", everywhere, func(p *corev1.PodSpec) {
			p.Containers[0].Env = slices.DeleteFunc(p.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "CODEX_CA_CERTIFICATE" })
		}, "certificate"},
	} {
		t.Run("a workspace "+tt.name+" does not start", func(t *testing.T) {
			n.files["executor/token"] = tt.token
			w := render(t, restricted).workload(t, "workspace")
			tt.change(&w.template.Spec)
			p, err := n.play(w, pod, "10.123.0.30")
			defer p.end(t)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func (o *objects) workload(t *testing.T, name string) *workload {
	t.Helper()
	i := slices.IndexFunc(o.workloads, func(w *workload) bool { return w.meta.Name == name })
	if i < 0 {
		t.Fatalf("%s has no workload %s", o.name, name)
	}
	return o.workloads[i]
}

// check runs commands in a pod: without a sandbox to see what the container permits, and in two
// sandboxes.
func (p *pod) check(t *testing.T, environment, dir, seccomp string) {
	t.Helper()
	p.expect(t, environment, strings.Join([]string{
		"65532", "65532", dir, "the root is read-only", "CapBnd: 0000000000000000", "CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: " + seccomp, "",
	}, "\n"), "--", "sh", "-c", `id -u; id -g; pwd; touch /x 2>/dev/null || echo the root is read-only
		for k in CapBnd CapEff NoNewPrivs Seccomp; do echo $(grep ^$k: /proc/1/status | cat); done`)
	p.expect(t, environment, "refused\n", "--sandbox", "read-only", "--cwd", dir, "--", "sh", "-c", "(echo > sandboxed) 2>/dev/null || echo refused")
	p.expect(t, environment, "hello\n", "--sandbox", "workspace-write", "--cwd", dir, "--", "sh", "-c", "echo hello > sandboxed; cat sandboxed")
}

func (p *pod) expect(t *testing.T, environment, want string, args ...string) {
	t.Helper()
	got, err := p.n.codex(append([]string{"remote", "run", "--env", environment}, args...)...)
	if err != nil || got != want {
		log, _ := p.n.podman("logs", p.name+"-executor").CombinedOutput()
		t.Errorf("%q:\ngot %q, error %v\nwant %q\n%s", args, got, err, want, log)
	}
}
