package manifests

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// treeDir has the kustomizations, and README.md about them.
const treeDir = "../../../docs/operations/kubernetes/"

// The kustomizations that an operator applies. All others are their bases.
const (
	rendezvous     = "base/rendezvous"
	restricted     = "overlays/restricted"
	userNamespaces = "overlays/user-namespaces"
	fifty          = "examples/fifty-workspaces"
)

var applied = []string{rendezvous, restricted, userNamespaces, fifty}

// objects are what a kustomization makes.
type objects struct {
	name       string
	namespaces []*corev1.Namespace
	services   []*corev1.Service
	workloads  []*workload
	budgets    []*policyv1.PodDisruptionBudget
	policies   []*networkingv1.NetworkPolicy
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	kind     string
	meta     metav1.ObjectMeta
	replicas int32
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

// containers returns all containers. Every init container of the manifests is a sidecar.
func (w *workload) containers() []corev1.Container {
	return slices.Concat(w.template.Spec.InitContainers, w.template.Spec.Containers)
}

// decoder decodes objects strictly: an unknown or repeated field is an error.
func decoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types themselves are wrong
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// render renders a kustomization, as kubectl kustomize does, and decodes its objects.
func render(t testing.TB, name string) *objects {
	t.Helper()
	o, err := renderDir(filepath.Join(treeDir, name))
	if err != nil {
		t.Fatalf("render %s: got error %v, want none", name, err)
	}
	o.name = name
	return o
}

func renderDir(dir string) (*objects, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	o := new(objects)
	for _, r := range rendered.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		object, _, err := decoder().Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		switch object := object.(type) {
		case *corev1.Namespace:
			o.namespaces = append(o.namespaces, object)
		case *corev1.Service:
			o.services = append(o.services, object)
		case *policyv1.PodDisruptionBudget:
			o.budgets = append(o.budgets, object)
		case *networkingv1.NetworkPolicy:
			o.policies = append(o.policies, object)
		case *appsv1.Deployment:
			o.workloads = append(o.workloads, &workload{"Deployment", object.ObjectMeta, *object.Spec.Replicas, object.Spec.Selector, object.Spec.Template, nil})
		case *appsv1.StatefulSet:
			o.workloads = append(o.workloads, &workload{"StatefulSet", object.ObjectMeta, *object.Spec.Replicas, object.Spec.Selector, object.Spec.Template, object.Spec.VolumeClaimTemplates})
		default:
			return nil, fmt.Errorf("%s: the test does not know this kind", r.CurId())
		}
	}
	return o, nil
}

// TestEveryKustomizationRenders: each directory with a kustomization renders, and each object is one
// of Kubernetes' API.
func TestEveryKustomizationRenders(t *testing.T) {
	t.Parallel()
	var found []string
	err := filepath.WalkDir(treeDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "kustomization.yaml" {
			found = append(found, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(found) < len(applied) {
		t.Fatalf("found %q, error %v; want at least %d kustomizations", found, err, len(applied))
	}
	for _, dir := range found {
		if o, err := renderDir(dir); err != nil || len(o.workloads) == 0 {
			t.Errorf("%s: got %+v, error %v; want workloads, no error", dir, o, err)
		}
	}
}

// TestDecodingIsStrict: a misspelled and a repeated field are errors. Without strictness the test
// above would accept both.
func TestDecodingIsStrict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {selectors: {a: b}}":                "selectors",
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: None, clusterIP: None}": "clusterIP",
		"apiVersion: v9\nkind: Service\nmetadata: {name: x}":                                           "v9",
	} {
		if _, _, err := decoder().Decode([]byte(text), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one about %s", text, err, want)
		}
	}
}

// TestReferences checks what the types cannot express: names in objects lead to existing ones, and
// everything that each pod should have is there.
func TestReferences(t *testing.T) {
	t.Parallel()
	namespaces := map[string]string{}
	for _, name := range applied {
		o := render(t, name)
		if len(o.namespaces) != 1 {
			t.Fatalf("%s: got %d namespaces, want 1", name, len(o.namespaces))
		}
		// If two kustomizations had one namespace, the one applied last would decide its Pod Security Standard.
		namespace := o.namespaces[0].Name
		if other, ok := namespaces[namespace]; ok {
			t.Errorf("%s and %s have the same namespace %s", name, other, namespace)
		}
		namespaces[namespace] = name
		for _, w := range o.workloads {
			what := name + ", " + w.meta.Name
			pods := labels.Set(w.template.Labels)
			if w.meta.Namespace != namespace {
				t.Errorf("%s: got namespace %q, want %q", what, w.meta.Namespace, namespace)
			}
			if !selects(t, w.selector, pods) {
				t.Errorf("%s: the selector does not match the pods", what)
			}
			if !slices.ContainsFunc(o.policies, func(p *networkingv1.NetworkPolicy) bool {
				return p.Namespace == namespace && selects(t, &p.Spec.PodSelector, pods) && len(p.Spec.PolicyTypes) == 2
			}) {
				t.Errorf("%s: no network policy denies both directions by default", what)
			}
			checkVolumes(t, what, w)
			checkNames(t, what, w)
			for _, c := range w.containers() {
				checkContainer(t, what, &c)
			}
		}
		for _, b := range o.budgets {
			if !slices.ContainsFunc(o.workloads, func(w *workload) bool { return selects(t, b.Spec.Selector, w.template.Labels) && w.replicas > 1 }) {
				t.Errorf("%s: the disruption budget %s matches no workload of several pods", name, b.Name)
			}
		}
		for _, p := range o.policies {
			checkPolicy(t, o, p)
		}
		for _, s := range o.services {
			for _, p := range s.Spec.Ports {
				if !slices.ContainsFunc(o.workloads, func(w *workload) bool {
					return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.template.Labels)) && hasPort(w, p.TargetPort)
				}) {
					t.Errorf("%s: the service leads to %v, which is no port of the pods", name, p.TargetPort)
				}
				if p.TargetPort.String() == "metrics" {
					t.Errorf("%s: the service %s leads to the metrics", name, s.Name)
				}
			}
		}
	}
}

// TestPromises: the kustomizations have what README.md promises of each.
func TestPromises(t *testing.T) {
	t.Parallel()
	meet := render(t, rendezvous)
	if len(meet.budgets) != 1 || len(meet.services) != 1 || meet.workloads[0].replicas < 2 {
		t.Errorf("%s: got %d budgets, %d services, %d replicas; want 1, 1, at least 2", rendezvous, len(meet.budgets), len(meet.services), meet.workloads[0].replicas)
	}
	for _, w := range render(t, userNamespaces).workloads {
		if users := w.template.Spec.HostUsers; users == nil || *users {
			t.Errorf("%s, %s: the pods have the users of the node", userNamespaces, w.meta.Name)
		}
	}
	team := render(t, fifty).workloads
	if len(team) != 1 || team[0].replicas != 50 || team[0].meta.Name != "team-workspace" || len(team[0].claims) != 1 {
		t.Errorf("%s: got %+v, want one workload team-workspace with 50 pods and a claim", fifty, team)
	}
	// Every pod registers under its own name.
	if args := team[0].containers()[0].Args; !slices.Contains(args, "--environment-id=$(POD_NAME)") {
		t.Errorf("%s: got %q, want an environment id from the name of the pod", fifty, args)
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

func hasPort(w *workload, port intstr.IntOrString) bool {
	return slices.ContainsFunc(w.containers(), func(c corev1.Container) bool { return portOf(&c, port) != 0 })
}

// portOf returns the number of a container's port; 0: it has no such port.
func portOf(c *corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
			return p.ContainerPort
		}
	}
	return 0
}

// checkPolicy: a network policy selects pods, and opens ports that they have.
func checkPolicy(t *testing.T, o *objects, p *networkingv1.NetworkPolicy) {
	t.Helper()
	for _, w := range o.workloads {
		if !selects(t, &p.Spec.PodSelector, w.template.Labels) {
			continue
		}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if !hasPort(w, *port.Port) {
					t.Errorf("%s: the network policy %s opens %v, which is no port of the pods", o.name, p.Name, port.Port)
				}
				if n := portOf(&w.containers()[0], *port.Port); len(rule.From) == 0 && n != 8766 {
					t.Errorf("%s: the network policy %s opens port %d to everybody", o.name, p.Name, n)
				}
			}
		}
		return
	}
	t.Errorf("%s: the network policy %s selects no pods", o.name, p.Name)
}

// checkVolumes: containers mount only volumes and claims of the pod, and each is mounted.
func checkVolumes(t *testing.T, what string, w *workload) {
	t.Helper()
	volumes := map[string]bool{} // whether a container mounts it
	for _, v := range w.template.Spec.Volumes {
		volumes[v.Name] = false
	}
	for _, c := range w.claims {
		volumes[c.Name] = false
	}
	for _, c := range w.containers() {
		for _, m := range c.VolumeMounts {
			if _, ok := volumes[m.Name]; !ok {
				t.Errorf("%s: container %s mounts %s, which is no volume", what, c.Name, m.Name)
			}
			volumes[m.Name] = true
		}
	}
	for name, mounted := range volumes {
		if !mounted {
			t.Errorf("%s: no container mounts %s", what, name)
		}
	}
}

// checkContainer: a container has all requests and limits. If it runs codex, it also has probes of
// ports and paths that exist, and its options are those of the program.
func checkContainer(t *testing.T, what string, c *corev1.Container) {
	t.Helper()
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		request, limit := c.Resources.Requests[r], c.Resources.Limits[r]
		if request.IsZero() || limit.Cmp(request) < 0 {
			t.Errorf("%s, container %s: got %s request %s and limit %s, want both, the limit not lower", what, c.Name, r, request.String(), limit.String())
		}
	}
	words := slices.Concat(c.Command, c.Args)
	isServer := slices.Contains(words, "exec-server")
	if !isServer && !slices.Contains(words, "rendezvous") {
		return
	}
	path, document := "../../../docs/rendezvous.md", ""
	if isServer {
		path = "../../../docs/cli.md"
	}
	document = read(t, path)
	if isServer {
		_, document, _ = strings.Cut(document, "\n## codex exec-server\n")
		document, _, _ = strings.Cut(document, "\n## ")
	}
	for _, word := range words {
		if option, _, _ := strings.Cut(word, "="); strings.HasPrefix(option, "--") &&
			!regexp.MustCompile("`"+regexp.QuoteMeta(option)+"[` ]").MatchString(document) {
			t.Errorf("%s: %s does not have the option %s", what, path, option)
		}
	}
	if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--metrics-listen=") }) {
		t.Errorf("%s: the metrics have no port of their own", what)
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || portOf(c, p.HTTPGet.Port) == 0 {
			t.Errorf("%s, container %s: got the probe %+v, want one of a port of the container", what, c.Name, p)
		} else if text := read(t, "../../../docs/operations.md") + read(t, "../../../docs/rendezvous.md"); !regexp.MustCompile("`(GET )?" + p.HTTPGet.Path + "`").MatchString(text) {
			t.Errorf("%s: the probe asks for %s, which is not documented", what, p.HTTPGet.Path)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\\\n"), nil))
}

// madeByHand matches a command of README.md that creates a Secret or a ConfigMap.
var madeByHand = regexp.MustCompile(`create (?:secret generic|configmap) (\S+)((?:\s+--from-file=\S+)+)`)

// checkNames: the commands of README.md create the Secrets, ConfigMaps and keys that a pod names.
func checkNames(t *testing.T, what string, w *workload) {
	t.Helper()
	keys := map[string][]string{}
	for _, m := range madeByHand.FindAllStringSubmatch(read(t, treeDir+"README.md"), -1) {
		for word := range strings.FieldsSeq(m[2]) {
			from, _ := strings.CutPrefix(word, "--from-file=")
			key, _, _ := strings.Cut(from, "=")
			keys[m[1]] = append(keys[m[1]], filepath.Base(key))
		}
	}
	want := func(name, key string) {
		if has := keys[name]; len(has) == 0 || key != "" && !slices.Contains(has, key) {
			t.Errorf("%s: README.md does not make %s of %s", what, key, name)
		}
	}
	mounted := map[string]string{} // the name of what is mounted at a path
	for _, v := range w.template.Spec.Volumes {
		switch {
		case v.Secret != nil:
			want(v.Secret.SecretName, "")
			mounted[v.Name] = v.Secret.SecretName
		case v.ConfigMap != nil:
			want(v.ConfigMap.Name, "")
			mounted[v.Name] = v.ConfigMap.Name
		}
	}
	for _, c := range w.containers() {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				want(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
			}
		}
		// Arguments and variables name files of what is mounted.
		words := slices.Clone(c.Args)
		for _, e := range c.Env {
			words = append(words, "="+e.Value)
		}
		for _, m := range c.VolumeMounts {
			for _, word := range words {
				_, path, _ := strings.Cut(word, "=")
				if key, ok := strings.CutPrefix(path, m.MountPath+"/"); ok && mounted[m.Name] != "" {
					want(mounted[m.Name], key)
				}
			}
		}
	}
}
