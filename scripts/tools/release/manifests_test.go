package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifestsDir has the manifests for Kubernetes, and README.md about them.
const manifestsDir = "../../../docs/operations/kubernetes/"

// manifests are the objects of one file.
type manifests struct {
	name        string
	namespaces  []*corev1.Namespace
	services    []*corev1.Service
	deployments []*appsv1.Deployment
	budgets     []*policyv1.PodDisruptionBudget
}

// readManifests decodes the manifests into the types of Kubernetes. An unknown field is an error.
func readManifests(t *testing.T) []manifests {
	t.Helper()
	names, err := filepath.Glob(manifestsDir + "*.yaml")
	if err != nil || len(names) < 3 {
		t.Fatalf("found %q, %v", names, err)
	}
	var all []manifests
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := manifests{name: filepath.Base(name)}
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			if err := m.decode(document); err != nil {
				t.Fatalf("%s, document %d: %v", m.name, i, err)
			}
		}
		all = append(all, m)
	}
	return all
}

func (m *manifests) decode(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	var object any
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		object = appended(&m.namespaces)
	case "v1 Service":
		object = appended(&m.services)
	case "apps/v1 Deployment":
		object = appended(&m.deployments)
	case "policy/v1 PodDisruptionBudget":
		object = appended(&m.budgets)
	default:
		return fmt.Errorf("the test does not know objects of %s %s", kind.APIVersion, kind.Kind)
	}
	return yaml.UnmarshalStrict(document, object)
}

// appended appends a new object to a list, and returns it.
func appended[T any](list *[]*T) *T {
	object := new(T)
	*list = append(*list, object)
	return object
}

// TestManifests checks what the types cannot express: references in manifests name existing
// objects.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, m := range readManifests(t) {
		if len(m.deployments) != 1 {
			t.Errorf("%s has %d deployments", m.name, len(m.deployments))
			continue
		}
		d := m.deployments[0]
		pods := labels.Set(d.Spec.Template.Labels)
		if !selects(t, d.Spec.Selector, pods) {
			t.Errorf("%s: the selector of the deployment does not match its pods", m.name)
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			checkVolumes(t, m.name, &d.Spec.Template.Spec, &c)
			checkOptions(t, m.name, &c)
			checkProbes(t, m.name, &c)
		}
		checkSecrets(t, m.name, &d.Spec.Template.Spec)
		for _, b := range m.budgets {
			if !selects(t, b.Spec.Selector, pods) {
				t.Errorf("%s: the disruption budget does not match the pods", m.name)
			}
			if most := b.Spec.MaxUnavailable; most == nil || most.IntValue() < 1 || most.IntValue() >= int(*d.Spec.Replicas) {
				t.Errorf("%s: of %d pods %v may be unavailable", m.name, *d.Spec.Replicas, most)
			}
		}
		for _, s := range m.services {
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(pods) {
				t.Errorf("%s: the service does not match the pods", m.name)
			}
			for _, p := range s.Spec.Ports {
				if !hasPort(&d.Spec.Template.Spec.Containers[0], p.TargetPort) {
					t.Errorf("%s: the service leads to %v, which is no port of the pods", m.name, p.TargetPort)
				}
			}
		}
	}
}

// TestRendezvousManifests: the manifests of the rendezvous service contain everything that the
// README promises.
func TestRendezvousManifests(t *testing.T) {
	t.Parallel()
	all := readManifests(t)
	i := slices.IndexFunc(all, func(m manifests) bool { return m.name == "rendezvous.yaml" })
	if i < 0 || len(all[i].services) != 1 || len(all[i].budgets) != 1 || len(all[i].deployments) != 1 {
		t.Fatalf("rendezvous.yaml is not as expected: %+v", all)
	}
	d := all[i].deployments[0]
	c := d.Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			t.Errorf("there is no %s probe by HTTP", name)
		}
	}
	if *d.Spec.Replicas < 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("an update leaves no node: %d replicas, %+v", *d.Spec.Replicas, d.Spec.Strategy.RollingUpdate)
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, pods labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(pods)
}

func hasPort(c *corev1.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
		if port.Type == intstr.String {
			return p.Name == port.StrVal
		}
		return p.ContainerPort == port.IntVal
	})
}

func checkVolumes(t *testing.T, name string, pod *corev1.PodSpec, c *corev1.Container) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
		}
	}
	for _, v := range pod.Volumes {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return v.Name == m.Name }) {
			t.Errorf("%s: container %s does not mount %s", name, c.Name, v.Name)
		}
	}
}

// checkProbes: a probe sends a request to a port of the container, over TLS if the server has a
// certificate, for a path that docs/rendezvous.md documents.
func checkProbes(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	document, err := os.ReadFile("../../../docs/rendezvous.md")
	if err != nil {
		t.Fatal(err)
	}
	scheme := corev1.URISchemeHTTP
	if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--tls-cert") }) {
		scheme = corev1.URISchemeHTTPS
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p == nil {
			continue
		}
		if get := p.HTTPGet; !hasPort(c, get.Port) || get.Scheme != scheme || !regexp.MustCompile("`(GET )?"+get.Path+"`").Match(document) {
			t.Errorf("%s: the probe %+v asks for nothing that is there", name, *get)
		}
	}
}

// checkOptions: the program has the options in the container's arguments. Tests of cmd/codex
// compare the documents with the program.
func checkOptions(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	words := slices.Concat(c.Command, c.Args)
	path, command := "../../../docs/rendezvous.md", "rendezvous"
	if slices.Contains(words, "exec-server") {
		path, command = "../../../docs/cli.md", "exec-server"
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	section := string(document)
	if command == "exec-server" {
		_, section, _ = strings.Cut(section, "\n## codex exec-server\n")
		section, _, _ = strings.Cut(section, "\n## ")
	}
	found := 0
	for _, word := range words {
		option, _, _ := strings.Cut(word, "=")
		if !strings.HasPrefix(option, "--") {
			continue
		}
		found++
		if !regexp.MustCompile("`" + regexp.QuoteMeta(option) + "[` ]").MatchString(section) {
			t.Errorf("%s: codex %s has no option %s", name, command, option)
		}
	}
	if found == 0 {
		t.Errorf("%s: no option was found in %q", name, words)
	}
}

// secretCommand matches a command of the README that creates a secret.
var secretCommand = regexp.MustCompile(`create secret generic (\S+)((?:[\s\\]+--from-file=\S+)+)`)

// checkSecrets: the commands of the README create the secrets and keys that a pod names.
func checkSecrets(t *testing.T, name string, pod *corev1.PodSpec) {
	t.Helper()
	document, err := os.ReadFile(manifestsDir + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{}
	for _, m := range secretCommand.FindAllStringSubmatch(string(document), -1) {
		for word := range strings.FieldsSeq(m[2]) {
			if from, ok := strings.CutPrefix(word, "--from-file="); ok {
				key, _, _ := strings.Cut(from, "=")
				keys[m[1]] = append(keys[m[1]], key)
			}
		}
	}
	want := func(secret, key string) {
		if has := keys[secret]; len(has) == 0 || key != "" && !slices.Contains(has, key) {
			t.Errorf("%s: README.md does not make %s of the secret %s", name, key, secret)
		}
	}
	for _, v := range pod.Volumes {
		if v.Secret == nil {
			continue
		}
		want(v.Secret.SecretName, "")
		for _, item := range v.Secret.Items {
			want(v.Secret.SecretName, item.Key)
		}
	}
	for _, c := range pod.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				want(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
			}
		}
	}
}
