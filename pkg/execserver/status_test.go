package execserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/wsauth"
)

// getStatus requests the status page of a server with headers, and returns the status code, the
// header and the body.
func getStatus(t *testing.T, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(strings.TrimSuffix(url, "/"), "ws")+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

// TestStatusPage: a client sees its own sessions and processes, and no others. Names that other
// clients chose cannot become markup, and no session id is shown.
func TestStatusPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	srv, url := newTestServer(t, Options{Version: "1<2"})
	p, session := hello(t, url)
	p.start("<script>p</script>", "exec sleep 600 # <img src=x>", nil)
	p.start("done", "exit 3", nil)
	p.closed("done")
	status, header, page := getStatus(t, url)
	csp := header.Get("Content-Security-Policy")
	if status != http.StatusOK || csp == "" || header.Get("Cache-Control") != "no-store" ||
		strings.Contains(csp, "script-src") || strings.Contains(csp, "unsafe") {
		t.Errorf(`got status %d, header %v; want status %d, csp other than "", header.Get("Cache-Control") "no-store", csp without "script-src", csp without "unsafe"`, status, header, http.StatusOK)
	}
	for _, want := range []string{"&lt;script&gt;p&lt;/script&gt;", "&lt;img src=x&gt;", ">running<", ": 3 exit<", "1&lt;2", "connected from 127.0.0.1"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.Contains(page, session) {
		t.Errorf("the page has markup of others, or the session's id:\n%s", page)
	}
	_, _, text := getStatus(t, url, "Accept", "application/json")
	var report statuspage.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || len(report.Sessions) != 1 || len(report.Sessions[0].Processes) != 2 ||
		strings.Contains(text, session) {
		t.Errorf("got error %v, text %s; want no error, len(report.Sessions) 1, len(report.Sessions[0].Processes) 2, text without %q", err, text, session)
	}
	other := statusSource{srv}.Report(t.Context(), &wsauth.Grant{Principal: "somebody else", Role: wsauth.RoleRun})
	if len(other.Sessions) != 0 {
		t.Errorf("another principal sees %+v", other)
	}
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{[]string{"Origin", "http://x"}, 403}, {[]string{"Host", "rebound.example"}, 403}, {[]string{"Host", "localhost.example:1"}, 403},
		{[]string{"Host", "localhost:1"}, 200}, {[]string{"Host", "[::1]:1"}, 200}, {[]string{"Host", "127.0.0.1"}, 200},
	} {
		if status, _, page := getStatus(t, url, tt.header...); status != tt.want || status != 200 && strings.Contains(page, "sleep") {
			t.Errorf("%v: %d, want %d", tt.header, status, tt.want)
		}
	}
}

// TestStatusNeedsToken: if the server requires tokens, a client without one sees nothing.
func TestStatusNeedsToken(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	sum := sha256.Sum256([]byte(token))
	auth, err := wsauth.New(wsauth.Config{Mode: "capability-token", TokenSHA256: hex.EncodeToString(sum[:])})
	if err != nil {
		t.Fatal(err)
	}
	_, url := newTestServer(t, Options{Auth: auth})
	basic := func(password string) string {
		r, _ := http.NewRequest(http.MethodGet, "http://x", nil)
		r.SetBasicAuth("anybody", password)
		return r.Header.Get("Authorization")
	}
	for _, tt := range []struct {
		authorization string
		want          int
	}{{"", 401}, {basic("wrong"), 401}, {basic(""), 401}, {"Bearer wrong", 401}, {basic(token), 200}, {"Bearer " + token, 200}} {
		status, header, page := getStatus(t, url, "Authorization", tt.authorization, "Host", "any.example")
		if status != tt.want || (status == 401) != strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic ") || strings.Contains(page, token) {
			t.Errorf("%q: got status %d, header %v; want status %d, page without %q", tt.authorization, status, header, tt.want, token)
		}
	}
}
