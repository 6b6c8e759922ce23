package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests decodes the manifests of docs/operations/kubernetes by the types of
// Kubernetes, in which no field may be unknown.
func TestManifests(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../../docs/operations/kubernetes/*.yaml")
	if err != nil || len(names) < 3 {
		t.Fatalf("found %q, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			checkManifest(t, filepath.Base(name), i, document)
		}
	}
}

func checkManifest(t *testing.T, name string, i int, document []byte) {
	t.Helper()
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Errorf("%s, document %d: %v", name, i, err)
		return
	}
	objects := map[string]any{
		"v1 Namespace": &corev1.Namespace{}, "v1 Service": &corev1.Service{},
		"apps/v1 Deployment": &appsv1.Deployment{}, "policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}
	object := objects[kind.APIVersion+" "+kind.Kind]
	if object == nil {
		t.Errorf("%s, document %d: this test does not know %s %s", name, i, kind.APIVersion, kind.Kind)
		return
	}
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		t.Errorf("%s, document %d: %v", name, i, err)
		return
	}
	if d, ok := object.(*appsv1.Deployment); ok {
		checkDeployment(t, name, d)
	}
}

// checkDeployment checks what the types do not: names that must agree, and what the Pod
// Security Standards demand of every pod here.
func checkDeployment(t *testing.T, name string, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	for k, v := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[k] != v {
			t.Errorf("%s: the selector %s=%s does not match the pods", name, k, v)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	if pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot {
		t.Errorf("%s: the pod may run as root", name)
	}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
			}
		}
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || len(s.Capabilities.Drop) == 0 {
			t.Errorf("%s: container %s keeps privileges", name, c.Name)
		}
	}
}
