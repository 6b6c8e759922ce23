package rendezvous

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay"
	"codex.internal/pkg/testutil"
)

// TestStatusPolicy: the policy allows exactly what the page contains.
func TestStatusPolicy(t *testing.T) {
	s := start(t, Options{})
	w := s.get("/status", "Authorization", "Bearer "+s.token)
	policy, text := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %q", policy)
	}
	for element, directive := range map[string]string{"style": "style-src ", "script": "script-src "} {
		_, rest, _ := strings.Cut(text, "<"+element+">")
		content, _, ok := strings.Cut(rest, "</"+element+">")
		if !ok || !strings.Contains(policy, directive+hashOf(content)) {
			t.Errorf("the policy %q does not allow the page's %s", policy, element)
		}
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers %v", w.Header())
	}
}

// hashOf returns the name of an inline element in a policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// statusOf returns the status page in the form for programs.
func (s *service) statusOf() []environmentStatus {
	s.t.Helper()
	var list struct{ Environments []environmentStatus }
	w := s.get("/status", "Authorization", "Bearer "+s.token, "Accept", "application/json")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		s.t.Fatalf("got error %v, w.Body %s; want no error", err, w.Body)
	}
	return list.Environments
}

// silent prevents Go's HTTP client from adding a User-Agent.
var silent = http.Header{"User-Agent": nil}

// dialAs is dial with headers.
func (s *service) dialAs(url string, header http.Header) *peer {
	s.t.Helper()
	ws, res, err := websocket.DefaultDialer.Dial(url, header)
	if err != nil {
		s.t.Fatalf("dial: %v %+v", err, res)
	}
	s.t.Cleanup(func() { _ = ws.Close() })
	return &peer{s.t, ws}
}

// onAllNodes waits until the pages of both nodes are equal and as wanted.
func (s *service) onAllNodes(what string, wanted func(e *environmentStatus) bool) {
	s.t.Helper()
	testutil.Eventually(s.t.Context(), s.t, what, func() (string, bool) {
		near, far := s.statusOf(), s.far.statusOf()
		return fmt.Sprintf("%+v, %+v", near, far), len(near) == 1 && reflect.DeepEqual(near, far) && wanted(&near[0])
	})
}

func when(e *environmentStatus) string {
	text, _ := seen(e)
	return text
}

// TestStatusSeen: the page shows the address of a connected executor and, after it has
// disconnected, the time of that. Each node shows the same.
func TestStatusSeen(t *testing.T) {
	everywhere(t, func(t *testing.T, start starter) {
		s := start(t, Options{})
		bundle := s.register("e")
		s.onAllNodes("it has not connected", func(e *environmentStatus) bool {
			return e.Since == nil && !e.Connected && when(e) == "not connected yet"
		})
		x := s.dialAs(bundle.URL, relay.Description{Name: "box <1>", Agent: "codex/1.2.3"}.Header())
		s.onAllNodes("the connection", func(e *environmentStatus) bool {
			return e.Connected && e.LastSeen == nil && strings.HasPrefix(e.Address, "127.0.0.1:") && strings.HasPrefix(when(e), "since ") &&
				e.Name == "box <1>" && e.Program == "codex/1.2.3"
		})
		if page := s.far.get("/status", "Authorization", "Bearer "+s.token).Body.String(); !strings.Contains(page, "box &lt;1&gt;") || !strings.Contains(page, "codex/1.2.3") {
			t.Errorf("the page is %s", page)
		}
		_ = x.ws.Close()
		s.onAllNodes("its end", func(e *environmentStatus) bool {
			return !e.Connected && strings.HasPrefix(when(e), "until ") && e.Name == "box <1>"
		})
		// The executor reconnects and sends no description. Its registration came from Go's HTTP
		// client.
		s.dialAs(bundle.URL, silent)
		s.onAllNodes("another connection", func(e *environmentStatus) bool {
			return e.Connected && e.LastSeen == nil && e.Name == "" && e.Program == "Go-http-client/1.1"
		})
	})
}

// TestStatusAgentOfTheCall: for an executor and a harness that do not describe themselves, the page
// shows the User-Agent of their calls.
func TestStatusAgentOfTheCall(t *testing.T) {
	everywhere(t, func(t *testing.T, start starter) {
		s := start(t, Options{})
		call := func(s *service, verb, key, agent string) string {
			t.Helper()
			r, err := http.NewRequest(http.MethodPost, s.url+"/cloud/environment/e/"+verb, strings.NewReader(`{"security_profile":"noise_hybrid_ik_v1","`+key+`":`+keyText(identity())+`}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+s.token)
			r.Header.Set("User-Agent", agent)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var a answer
			if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != http.StatusOK || !a.AcceptsDescription {
				t.Fatalf("got res.StatusCode %d, a %+v, error %v; want no error, res.StatusCode %d, a.AcceptsDescription true", res.StatusCode, a, err, http.StatusOK)
			}
			return a.URL
		}
		x := s.dialAs(call(s, "register", "executor_public_key", "their-executor/7"), silent)
		url := call(s.far, "connect", "harness_public_key", "their-client/8")
		if strings.Contains(refused(t, strings.Replace(url, "their-client", "other-client", 1)), "accepted") {
			t.Error("the name in a URL can be changed")
		}
		one, two := s.dialAs(url, silent), s.dialAs(s.connect("e", identity()).URL, http.Header{"User-Agent": {"codex/1 \xff<b>"}})
		s.dialAs(call(s.far, "connect", "harness_public_key", ""), silent)
		one.open(x, "a")
		two.open(x, "b")
		two.open(x, "c")
		s.onAllNodes("the clients", func(e *environmentStatus) bool {
			return e.Program == "their-executor/7" && e.Harnesses == 3 && e.Streams == 3 && reflect.DeepEqual(e.Clients, []clientStatus{
				{"", 1, 0}, {"codex/1 \uFFFD<b>", 1, 2}, {"their-client/8", 1, 1},
			})
		})
		page := s.get("/status", "Authorization", "Bearer "+s.token).Body.String()
		for _, want := range []string{"codex/1 \uFFFD&lt;b&gt;: 1, 2 streams", "their-client/8: 1, 1 stream<", "others: 1<"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is missing in %s", want, page)
			}
		}
	})
}

// TestStatusNamesFewClients: the programs of an environment's clients are bounded.
func TestStatusNamesFewClients(t *testing.T) {
	x := &executor{harnesses: make(map[string]*member), streams: make(map[string]*stream)}
	for i := range 3 * statusClients {
		for j := range i%4 + 1 {
			x.harnesses[fmt.Sprint(i, " ", j)] = &member{agent: fmt.Sprintf("program/%02d", i)}
		}
	}
	got := x.status("r")
	if len(got.Clients) != statusClients || got.Harnesses != 3*statusClients/4*10 || got.Clients[0] != (clientStatus{"program/03", 4, 0}) {
		t.Errorf(`got %+v; want len(got.Clients) %v, Harnesses %v, got.Clients[0] clientStatus{"program/03", 4, 0}`, got, statusClients, 3*statusClients/4*10)
	}
	e := environmentStatus{Harnesses: got.Harnesses, Clients: got.Clients}
	if text := clients(&e); strings.Count(text, "program/") != statusClients || !strings.Contains(text, fmt.Sprintf("others: %d<", got.Harnesses-4*6-3*2)) {
		t.Errorf(`got %s; want strings.Count(text, "program/") %v, a text with %q`, text, statusClients, fmt.Sprintf("others: %d<", got.Harnesses-4*6-3*2))
	}
}

// TestStatusOfManyEnvironments: if the status of another node does not fit into one answer, the
// next answers contain the rest.
func TestStatusOfManyEnvironments(t *testing.T) {
	s := startTwo(t, Options{})
	const many = 1000
	for i := range many {
		a, _ := s.environments.use(fmt.Sprintf("%0200d", i), (*account).hold)
		a.up.meter.add(i, s.now())
	}
	testutil.Eventually(t.Context(), t, "what the other node knows", func() (string, bool) {
		found := s.far.survey.all()
		last := found[fmt.Sprintf("%0200d", many-1)]
		return fmt.Sprintf("%d, %+v", len(found), last), len(found) == many && len(last) == 1 && last[0].Up.Bytes == many-1
	})
	if one := len(s.survey.answer("")); one > MaxFrame || one < surveyBytes {
		t.Errorf("an answer has %d bytes", one)
	}
	for _, a := range s.environments.all() {
		a.release()
	}
}
