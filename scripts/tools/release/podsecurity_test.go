package main

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// refusals returns the reasons for which Kubernetes' own pod admission refuses a pod under a Pod
// Security Standard.
func refusals(t *testing.T, level api.Level, template *corev1.PodTemplateSpec) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec)
	var reasons []string
	for _, r := range results {
		if !r.Allowed {
			reasons = append(reasons, r.ForbiddenReason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// TestPodSecurity: each pod is admitted in the namespace of its manifest. If a manifest has no
// namespace, its pods are checked in the restricted namespace of the others. The pod with a user
// namespace needs two permissions that "restricted" does not grant, and no third one.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	wanted := map[string]struct {
		level   api.Level
		refused []string // under "restricted"
	}{
		"executor-restricted.yaml":      {api.LevelRestricted, nil},
		"executor-user-namespaces.yaml": {api.LevelPrivileged, []string{"procMount", "seccompProfile"}},
		"rendezvous.yaml":               {api.LevelRestricted, nil},
	}
	all := readManifests(t)
	if len(all) != len(wanted) {
		t.Errorf("%d manifests, want %d", len(all), len(wanted))
	}
	for _, m := range all {
		want, template := wanted[m.name], &m.deployments[0].Spec.Template
		level := api.LevelRestricted
		for _, n := range m.namespaces {
			level = api.Level(n.Labels[api.EnforceLevelLabel])
		}
		if level != want.level {
			t.Errorf("%s: its namespace enforces %q, want %q", m.name, level, want.level)
		}
		if reasons := refusals(t, level, template); len(reasons) > 0 {
			t.Errorf("%s is refused in its own namespace: %q", m.name, reasons)
		}
		if reasons := refusals(t, api.LevelRestricted, template); !slices.Equal(reasons, want.refused) {
			t.Errorf("%s is refused under restricted for %q, want %q", m.name, reasons, want.refused)
		}
	}
}

// TestPodSecurityRefuses: a pod that requests more is refused. This shows that the test above can
// fail.
func TestPodSecurityRefuses(t *testing.T) {
	t.Parallel()
	yes := true
	for name, change := range map[string]func(*corev1.PodSpec){
		"root":       func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"privileged": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = &yes },
		"escalation": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"capability": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil },
		"no filter":  func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"host": func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
	} {
		for _, m := range readManifests(t) {
			if m.name == "executor-user-namespaces.yaml" {
				continue // is refused in this form
			}
			template := m.deployments[0].Spec.Template.DeepCopy()
			change(&template.Spec)
			if len(refusals(t, api.LevelRestricted, template)) == 0 {
				t.Errorf("%s, %s: it is admitted", m.name, name)
			}
		}
	}
}
