package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

const prometheusFiles = "docs/operations/prometheus"

// dashboard is the part of Grafana's dashboard file that the test reads.
type dashboard struct {
	Panels []struct {
		Title, Type, Description string
		Targets                  []struct{ Expr string }
	}
}

// expressions returns the expressions of the dashboard, with values for Grafana's variables.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, prometheusFiles+"/grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".+")
	for _, p := range d.Panels {
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q has no description or no expression", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, variables.Replace(target.Expr))
		}
	}
	if len(list) < 20 {
		t.Errorf("the dashboard has %d expressions", len(list))
	}
	return list
}

// TestDashboardMetrics checks that dashboard and alerts name only metrics that the programs have,
// and that each alert is explained.
func TestDashboardMetrics(t *testing.T) {
	has := make(map[string]bool)
	for pattern, sources := range map[string][]string{
		`"(exec_server_[a-z_]+[a-z])"`:          {"pkg/execserver"},
		`"(rendezvous_[a-z_]+[a-z])"`:           {"pkg/rendezvous"},
		`"((?:go|process|codex)_[a-z_]+[a-z])"`: {"pkg/internal/metrics"},
	} {
		for _, source := range sources {
			for name := range matches(pattern, sourceText(t, source)) {
				has[name] = true
			}
		}
	}
	alerts := read(t, prometheusFiles+"/alerts.yml")
	exprs := append(expressions(t), alerts)
	names := matches(`\b((?:exec_server|rendezvous|codex|process|go)_[a-z_]+)\b`, strings.Join(exprs, "\n"))
	if len(names) < 30 {
		t.Errorf("found %d names", len(names))
	}
	histogram := regexp.MustCompile(`_(bucket|sum|count)$`)
	for name := range names {
		if !has[name] && !(histogram.MatchString(name) && has[histogram.ReplaceAllString(name, "")]) {
			t.Errorf("no program has the metric %s", name)
		}
	}
	explained := matches("(?m)^\\| `(Codex[A-Za-z]+)` \\|", sectionOf(t, prometheusFiles+"/README.md", "Alerts"))
	for name := range matches(`alert: (\w+)`, alerts) {
		if !explained[name] {
			t.Errorf("%s/README.md does not explain %s", prometheusFiles, name)
		}
		delete(explained, name)
	}
	if len(explained) > 0 {
		t.Errorf("%s/README.md explains what is not there: %v", prometheusFiles, explained)
	}
}

// TestPrometheusLoads has Prometheus load the alerts, each expression of the dashboard and the
// scrape configuration, and checks which alerts fire.
func TestPrometheusLoads(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v; apt-get install prometheus", err)
	}
	testutil.Need(t, "promtool (apt-get install prometheus)", err, exec.ErrNotFound)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("alerts.yml", read(t, prometheusFiles+"/alerts.yml"))
	write("prometheus.yml", strings.ReplaceAll(read(t, prometheusFiles+"/scrape.yml"), "/etc/prometheus/codex-token", filepath.Join(dir, "token")))
	write("token", "x")
	write("alerts_test.yml", read(t, "cmd/codex/cli/testdata/alerts_test.yml"))
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for i, expr := range expressions(t) {
		rules += fmt.Sprintf("      - {record: 'dashboard:panel%d', expr: %q}\n", i, expr)
	}
	write("dashboard.yml", rules)
	for _, args := range [][]string{
		{"check", "rules", "alerts.yml", "dashboard.yml"}, {"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
