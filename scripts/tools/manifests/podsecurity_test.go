package manifests

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

// TestPodSecurity: each pod is admitted in the namespace of its kustomization. The pods with a user
// namespace need two permissions that "restricted" does not grant, and no third one.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		level   api.Level
		refused []string // under "restricted"
	}{
		rendezvous:     {api.LevelRestricted, nil},
		restricted:     {api.LevelRestricted, nil},
		userNamespaces: {api.LevelPrivileged, []string{"procMount", "seccompProfile"}},
		fifty:          {api.LevelRestricted, nil},
	} {
		o := render(t, name)
		level := api.Level(o.namespaces[0].Labels[api.EnforceLevelLabel])
		if level != want.level {
			t.Errorf("%s: its namespace enforces %q, want %q", name, level, want.level)
		}
		for _, w := range o.workloads {
			if reasons := refusals(t, level, &w.template); len(reasons) > 0 {
				t.Errorf("%s, %s is refused in its own namespace: %q", name, w.meta.Name, reasons)
			}
			if reasons := refusals(t, api.LevelRestricted, &w.template); !slices.Equal(reasons, want.refused) {
				t.Errorf("%s, %s is refused under restricted for %q, want %q", name, w.meta.Name, reasons, want.refused)
			}
		}
	}
}

// TestPodSecurityRefuses: a pod that requests more is refused. This shows that the test above can
// fail.
func TestPodSecurityRefuses(t *testing.T) {
	t.Parallel()
	yes := true
	for what, change := range map[string]func(*corev1.PodSpec){
		"root":       func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"privileged": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = &yes },
		"escalation": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"capability": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil },
		"no filter":  func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"host": func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
	} {
		for _, name := range []string{rendezvous, restricted, fifty} {
			for _, w := range render(t, name).workloads {
				template := w.template.DeepCopy()
				change(&template.Spec)
				if len(refusals(t, api.LevelRestricted, template)) == 0 {
					t.Errorf("%s of %s, %s: it is admitted", what, name, w.meta.Name)
				}
			}
		}
	}
}
