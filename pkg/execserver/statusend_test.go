package execserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"github.com/gorilla/websocket"
)

// endPage is a browser with a token that uses the status page.
type endPage struct {
	t     *testing.T
	base  string
	token string
}

// do sends a request and returns the answer. It does not follow redirects.
func (e *endPage) do(method, path, body string, header ...string) (int, string) {
	e.t.Helper()
	r, err := http.NewRequest(method, e.base+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if e.token != "" {
		r.SetBasicAuth("anybody", e.token)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

var (
	endLink   = regexp.MustCompile(`\?end=([0-9a-f]{32})"`)
	proofText = regexp.MustCompile(`name="proof" value="([0-9a-f]{32})"`)
)

// form returns the body of the form that confirms the end of a process.
func (e *endPage) form(ref string) string {
	e.t.Helper()
	status, page := e.do(http.MethodGet, "/status?end="+ref, "")
	found := proofText.FindStringSubmatch(page)
	if status != http.StatusOK || found == nil {
		e.t.Fatalf("the confirmation: %d %s", status, page)
	}
	return url.Values{"end": {ref}, "proof": {found[1]}}.Encode()
}

// TestStatusEnds: only a client whose role permits it can end a process, only from the page
// itself, and only after a confirmation. The audit trail has the request.
func TestStatusEnds(t *testing.T) {
	dir := t.TempDir()
	file := wsauth.OpenTokens(filepath.Join(dir, "tokens.json"))
	token := func(role wsauth.Role, principal string) string {
		text, _, err := file.Create(context.Background(), wsauth.TokenSpec{Name: "t", Role: role, Principal: principal})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	run, read, other, admin := token(wsauth.RoleRun, "ci"), token(wsauth.RoleRead, "ci"), token(wsauth.RoleRun, "else"), token(wsauth.RoleAdmin, "")
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: filepath.Join(dir, "tokens.json")})
	if err != nil {
		t.Fatal(err)
	}
	key, err := audit.ReadKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trail, err := audit.Open(audit.Options{Path: filepath.Join(dir, "audit.log"), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trail.Close() })
	_, at := newTestServer(t, Options{Auth: auth, Audit: &observe.Audit{Log: trail}})
	ws, _, err := websocket.DefaultDialer.Dial(at, http.Header{"Authorization": {"Bearer " + run}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	p := &peer{t: t, ws: ws}
	p.initialize("")
	p.start("<b>victim", "exec sleep 600 # <i>", nil)

	base := "http" + strings.TrimSuffix(strings.TrimPrefix(at, "ws"), "/")
	page := func(token string) *endPage { return &endPage{t, base, token} }
	_, text := page(run).do(http.MethodGet, "/status", "")
	link := endLink.FindStringSubmatch(text)
	if link == nil || !strings.Contains(text, "processor") {
		t.Fatalf("no way to end the process in\n%s", text)
	}
	ref := link[1]
	for name, tt := range map[string]struct {
		token         string
		sees, mayAsks bool
	}{"read": {read, true, false}, "other": {other, false, false}, "admin": {admin, true, true}, "run": {run, true, true}} {
		_, text := page(tt.token).do(http.MethodGet, "/status", "")
		if strings.Contains(text, "victim") != tt.sees || strings.Contains(text, ref) != tt.mayAsks {
			t.Errorf("%s sees\n%s", name, text)
		}
		status, text := page(tt.token).do(http.MethodGet, "/status?end="+ref, "")
		if (status == http.StatusOK) != tt.mayAsks || strings.Contains(text, "victim") != tt.mayAsks || strings.Contains(text, "<b>v") || strings.Contains(text, "<i>") {
			t.Errorf("%s asks: %d\n%s", name, status, text)
		}
	}
	good := page(run).form(ref)
	proof := regexp.MustCompile(`proof=[0-9a-f]*`)
	host := strings.TrimPrefix(base, "http://")
	for name, tt := range map[string]struct {
		token, body string
		header      []string
	}{
		"no origin":            {run, good, nil},
		"another origin":       {run, good, []string{"Origin", "http://evil.example"}},
		"an opaque origin":     {run, good, []string{"Origin", "null"}},
		"another port":         {run, good, []string{"Origin", base + "1"}},
		"a path in the origin": {run, good, []string{"Origin", base + "/"}},
		"another scheme":       {run, good, []string{"Origin", "ftp://" + host}},
		"another site":         {run, good, []string{"Origin", base, "Sec-Fetch-Site", "cross-site"}},
		"no proof":             {run, "end=" + ref, []string{"Origin", base}},
		"a wrong proof":        {run, proof.ReplaceAllString(good, "proof="+ref), []string{"Origin", base}},
		"another's proof":      {run, page(admin).form(ref), []string{"Origin", base}},
		"no token":             {"", good, []string{"Origin", base}},
		"another's token":      {other, good, []string{"Origin", base}},
		"a reading token":      {read, good, []string{"Origin", base}},
		"a long form":          {run, good + "&x=" + strings.Repeat("x", 4<<10), []string{"Origin", base}},
	} {
		status, text := page(tt.token).do(http.MethodPost, "/status", tt.body, tt.header...)
		if status < 400 || strings.Contains(text, "victim") {
			t.Errorf(`%s: got status %d, text %s; want status at least 400, text without "victim"`, name, status, text)
		}
	}
	p.start("still", "exit 0", nil) // the server continues, and the process too
	p.closed("still")
	if status, text := page(run).do(http.MethodPost, "/status", good, "Origin", base, "Sec-Fetch-Site", "same-origin"); status != http.StatusSeeOther {
		t.Fatalf("got status %d, text %s; want status %d", status, text, http.StatusSeeOther)
	}
	if _, code := p.closed("<b>victim"); code != 137 {
		t.Errorf("exit code %d", code)
	}
	// Another process with the same name, which the old form must not end.
	p.start("second", "exec sleep 600", nil)
	if status, _ := page(run).do(http.MethodPost, "/status", good, "Origin", base); status != http.StatusSeeOther && status != http.StatusNotFound {
		t.Errorf("the form again: %d", status)
	}
	_, text = page(admin).do(http.MethodGet, "/status", "")
	second := endLink.FindStringSubmatch(text)
	if second == nil || second[1] == ref {
		t.Fatalf("the admin sees\n%s", text)
	}
	if status, text := page(admin).do(http.MethodPost, "/status", page(admin).form(second[1]), "Origin", base); status != http.StatusSeeOther {
		t.Fatalf("got status %d, text %s; want status %d", status, text, http.StatusSeeOther)
	}
	p.closed("second")
	lines, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for line := range bytes.Lines(lines) {
		if bytes.Contains(line, []byte(`"process.end_asked"`)) {
			if asked++; !bytes.Contains(line, []byte(`"owner":"principal ci"`)) || !bytes.Contains(line, []byte(`"peer":"127.0.0.1:`)) {
				t.Errorf("the trail has %s", line)
			}
		}
	}
	if asked < 2 || asked > 3 || !bytes.Contains(lines, []byte(`"principal":"token `)) {
		t.Errorf("%d ends in the trail:\n%s", asked, lines)
	}
}
