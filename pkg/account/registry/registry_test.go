package registry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/relay/noise"
	"github.com/klauspost/compress/zstd"
)

// publicKey is a key and its document.
func publicKey(t testing.TB) (noise.PublicKey, string) {
	t.Helper()
	id, err := noise.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	key := id.PublicKey()
	return key, string(key.AppendJSON(nil))
}

// client is a client of a registry that answers with handler.
func client(t *testing.T, handler http.HandlerFunc) *registry.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := registry.New(registry.Options{
		BaseURL: " " + server.URL + "/base// ", Authorizer: registry.Bearer("secret", "acct-1"), Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer answers with a status and a body.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestRequests(t *testing.T) {
	key, doc := publicKey(t)
	for name, tt := range map[string]struct {
		ask        func(context.Context, *registry.Client) error
		path, body string
		answer     string
	}{
		"register": {
			func(ctx context.Context, c *registry.Client) error {
				got, err := c.Register(ctx, " env 1/x ", key)
				if err == nil && got != (registry.Registration{URL: "ws://relay/e"}) {
					err = fmt.Errorf("got %+v", got)
				}
				return err
			},
			"/base/cloud/environment/env%201%2Fx/register",
			`{"security_profile":"noise_hybrid_ik_v1","executor_public_key":` + doc + `}`,
			`{"environment_id":"env 1/x","url":"ws://relay/e","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"","URL":1,"more":1,"more":{"url":[]},"accepts_description":"true"}`,
		},
		"connect": {
			func(ctx context.Context, c *registry.Client) error {
				got, err := c.Connect(ctx, "env-1", key)
				want := registry.Connection{URL: "ws://relay/h", RegistrationID: "reg-1", ExecutorKey: key, Authorization: "let me in", AcceptsDescription: true}
				if err == nil && got != want {
					err = fmt.Errorf("got %+v", got)
				}
				return err
			},
			"/base/cloud/environment/env-1/connect",
			`{"harness_public_key":` + doc + `}`,
			`{"environment_id":"env-1","url":"ws://relay/h","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"reg-1","executor_public_key":` + doc + `,"harness_key_authorization":"let me in","accepts_description":true}`,
		},
		"validate": {
			func(ctx context.Context, c *registry.Client) error {
				_, err := c.Validate(ctx, "env-1", registry.Claim{RegistrationID: "reg-1", HarnessKey: key, Authorization: "let me in"})
				return err
			},
			"/base/cloud/environment/env-1/validate",
			`{"executor_registration_id":"reg-1","harness_public_key":` + doc + `,"harness_key_authorization":"let me in"}`,
			`{"valid":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != tt.body {
					t.Errorf("the body is %s, %v", body, err)
				}
				if r.Method != "POST" || r.RequestURI != tt.path {
					t.Errorf(`got r.Method %s, r.RequestURI %s; want r.Method "POST", r.RequestURI %s`, r.Method, r.RequestURI, tt.path)
				}
				want := map[string]string{
					"Authorization": "Bearer secret", "Chatgpt-Account-Id": "acct-1", "Content-Type": "application/json",
					"Accept": "*/*", "Accept-Encoding": "zstd,gzip", "Content-Length": fmt.Sprint(len(tt.body)),
				}
				for name, value := range want {
					if r.Header.Get(name) != value {
						t.Errorf("%s: got %q, want %q", name, r.Header.Get(name), value)
					}
				}
				if len(r.Header) != len(want) {
					t.Errorf("headers: %v", r.Header)
				}
				answer(201, tt.answer)(w, r)
			})
			if err := tt.ask(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRegisterErrors(t *testing.T) {
	key, _ := publicKey(t)
	bundle := func(id, profile string) string {
		profile = strings.ReplaceAll(profile, "\a", `\u0007`)
		return fmt.Sprintf(`{"environment_id":%q,"url":"u","security_profile":"%s","executor_registration_id":"r"}`, id, profile)
	}
	for name, tt := range map[string]struct {
		status    int
		body      string
		want      string
		retryable bool
	}{
		"refused, with a reason":       {401, `{"error":{"code":"no","message":"who are you?"}}`, "environment registry authentication error: environment registry authentication failed (401 Unauthorized): who are you?", false},
		"refused, in plain text":       {403, " go away\n", "environment registry authentication error: environment registry authentication failed (403 Forbidden): go away", false},
		"refused, silently":            {401, " \n", "environment registry authentication error: environment registry authentication failed (401 Unauthorized): empty error body", false},
		"not found, with a code":       {404, `{"error":{"code":"environment_not_found","message":"no such"}}`, "environment registry request failed (404 Not Found, environment_not_found): no such", false},
		"without a code":               {404, `{"error":{"message":"no such"}}`, "environment registry request failed (404 Not Found): no such", false},
		"a code alone":                 {409, `{"error":{"code":"busy"}}`, `environment registry request failed (409 Conflict, busy): {"error":{"code":"busy"}}`, false},
		"other JSON":                   {500, `{"detail":"x"}`, `environment registry request failed (500 Internal Server Error): {"detail":"x"}`, true},
		"an empty body":                {500, "", "environment registry request failed (500 Internal Server Error): empty or malformed error body", true},
		"a long body":                  {503, strings.Repeat("é", 5000), "environment registry request failed (503 Service Unavailable): " + strings.Repeat("é", 4096), true},
		"a body without an end":        {500, strings.Repeat("x", 100<<10), "environment registry request failed (500 Internal Server Error): " + strings.Repeat("x", 4096), true},
		"a redirect":                   {302, "", "environment registry request failed (302 Found): empty or malformed error body", false},
		"a status without a name":      {499, "x", "environment registry request failed (499 <unknown status code>): x", false},
		"too many requests":            {429, "later", "environment registry request failed (429 Too Many Requests): later", true},
		"no JSON":                      {200, "hello", "environment registry request failed: error decoding response body", false},
		"a member of another type":     {200, `{"environment_id":1}`, "environment registry request failed: error decoding response body", false},
		"a missing member":             {200, `{"environment_id":"env-1","url":"u","security_profile":"noise_hybrid_ik_v1"}`, "environment registry request failed: error decoding response body", false},
		"a member in another case":     {200, `{"Environment_ID":"env-1","url":"u","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r"}`, "environment registry request failed: error decoding response body", false},
		"a member twice":               {200, `{"environment_id":"env-1","environment_id":"env-1","url":"u","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r"}`, "environment registry request failed: error decoding response body", false},
		"a member that is null":        {200, `{"environment_id":"env-1","url":null,"security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r"}`, "environment registry request failed: error decoding response body", false},
		"no UTF-8":                     {200, `{"environment_id":"env-1","url":"u","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"` + "\xff" + `"}`, "environment registry request failed: error decoding response body", false},
		"more behind it":               {200, bundle("env-1", "noise_hybrid_ik_v1") + " x", "environment registry request failed: error decoding response body", false},
		"a reason in another case":     {500, `{"Error":{"code":"c","message":"m"}}`, `environment registry request failed (500 Internal Server Error): {"Error":{"code":"c","message":"m"}}`, true},
		"a code twice":                 {500, `{"error":{"code":"c","code":"d","message":"m"}}`, `environment registry request failed (500 Internal Server Error): {"error":{"code":"c","code":"d","message":"m"}}`, true},
		"a code that is a number":      {500, `{"error":{"code":5,"message":"m"}}`, `environment registry request failed (500 Internal Server Error): {"error":{"code":5,"message":"m"}}`, true},
		"null for a reason":            {500, `{"error":{"code":null,"message":null}}`, `environment registry request failed (500 Internal Server Error): {"error":{"code":null,"message":null}}`, true},
		"null for an error":            {500, `{"error":null}`, `environment registry request failed (500 Internal Server Error): {"error":null}`, true},
		"a reason with more":           {500, `{"x":1,"x":2,"error":{"code":"c","message":"m","type":"t"}}`, "environment registry request failed (500 Internal Server Error, c): m", true},
		"an empty reason":              {500, `{"error":{"message":""}}`, "environment registry request failed (500 Internal Server Error): ", true},
		"an endless answer":            {200, bundle("env-1", "noise_hybrid_ik_v1") + strings.Repeat(" ", 64<<10), "environment registry request failed: error decoding response body", false},
		"another environment":          {200, bundle("env-2", "noise_hybrid_ik_v1"), "exec-server protocol error: environment registry returned a different environment id", false},
		"what a terminal obeys":        {418, "\x1b[2J\xff \u202e", "environment registry request failed (418 I'm a teapot): \uFFFD[2J\uFFFD \uFFFD", false},
		"the same in JSON":             {401, `{"error":{"code":"\u001b","message":"\u001b[2J"}}`, "environment registry authentication error: environment registry authentication failed (401 Unauthorized): \uFFFD[2J", false},
		"and in a security profile":    {200, bundle("env-1", "\a"), "exec-server protocol error: environment registry returned unsupported security profile `\uFFFD`", false},
		"another security profile":     {200, bundle("env-1", "plain"), "exec-server protocol error: environment registry returned unsupported security profile `plain`", false},
		"a redirect is never followed": {307, "elsewhere", "environment registry request failed (307 Temporary Redirect): elsewhere", false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			c := client(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				if tt.status/100 == 3 {
					w.Header().Set("Location", "/elsewhere")
				}
				answer(tt.status, tt.body)(w, r)
			})
			_, err := c.Register(t.Context(), "env-1", key)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			var r interface{ Retryable() bool }
			if got := errors.As(err, &r) && r.Retryable(); got != tt.retryable {
				t.Errorf("retryable: %v", got)
			}
			if asked != 1 {
				t.Errorf("%d requests", asked)
			}
		})
	}
}

// TestCutAnswer: the connection ends in the middle of the answer. A retry may get the complete
// answer.
func TestCutAnswer(t *testing.T) {
	key, _ := publicKey(t)
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"environment_id":`)
	})
	_, err := c.Connect(t.Context(), "env-1", key)
	var r interface{ Retryable() bool }
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &r) || !r.Retryable() {
		t.Errorf("got error %v; want %v, errors.As(err, &r), r.Retryable()", err, io.ErrUnexpectedEOF)
	}
}

// TestCompressedAnswers: a registry may compress what it answers. The limit of an answer applies to what it becomes.
func TestCompressedAnswers(t *testing.T) {
	key, _ := publicKey(t)
	const good = `{"environment_id":"e","url":"ws://relay/e","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r"}`
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const undecoded = "environment registry request failed: error decoding response body"
	for name, tt := range map[string]struct {
		encoding, body string
		status         int
		err            string
		retryable      bool
	}{
		"gzip":                {"gzip", zip(good), 200, "", false},
		"zstd":                {"zstd", string(z.EncodeAll([]byte(good), nil)), 200, "", false},
		"gzip of an error":    {"gzip", zip(`{"error":{"code":"c","message":"no room"}}`), 503, "no room", true},
		"no gzip":             {"gzip", good, 200, undecoded, false},
		"gzip that is cut":    {"gzip", zip(good)[:40], 200, undecoded, false},
		"gzip that is a bomb": {"gzip", zip(strings.Repeat(" ", 100<<20) + good), 200, undecoded, false},
		"an unknown encoding": {"br", good, 200, "", false}, // not decoded, and here not encoded either
		"a bomb of an error":  {"gzip", zip(strings.Repeat("x", 100<<20)), 503, "503", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tt.encoding)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := c.Register(t.Context(), "e", key)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %.300v, want one with %q", err, tt.err)
			}
			var again interface{ Retryable() bool }
			if err != nil && (!errors.As(err, &again) || again.Retryable() != tt.retryable) {
				t.Errorf("got an error that may be retried: %t, want %t", !tt.retryable, tt.retryable)
			}
		})
	}
}

func TestConnectErrors(t *testing.T) {
	key, doc := publicKey(t)
	connection := func(url, registration, key, authorization string) string {
		return fmt.Sprintf(`{"environment_id":"env-1","url":%q,"security_profile":"noise_hybrid_ik_v1","executor_registration_id":%q,"executor_public_key":%s,"harness_key_authorization":%q}`, url, registration, key, authorization)
	}
	const incomplete = "exec-server protocol error: environment registry returned incomplete Noise connection data"
	for name, tt := range map[string]struct{ body, want string }{
		"a blank URL":           {connection(" ", "r", doc, "a"), incomplete},
		"a blank registration":  {connection("u", "\t", doc, "a"), incomplete},
		"a blank authorization": {connection("u", "r", doc, ""), incomplete},
		"another suite":         {connection("u", "r", strings.Replace(doc, "Noise_", "Noisy_", 1), "a"), "exec-server protocol error: invalid Noise channel public key: unsupported Noise channel suite"},
		"and another id":        {strings.Replace(connection("u", "r", strings.Replace(doc, "Noise_", "Noisy_", 1), "a"), "env-1", "env-2", 1), "exec-server protocol error: environment registry returned a different environment id"},
		"and no authorization":  {connection("u", "r", strings.Replace(doc, "Noise_", "Noisy_", 1), " "), incomplete},
		"a key with more":       {connection("u", "r", strings.Replace(doc, "{", `{"more":1,`, 1), "a"), "environment registry request failed: error decoding response body"},
		"no key":                {connection("u", "r", "null", "a"), "environment registry request failed: error decoding response body"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, answer(200, tt.body)).Connect(t.Context(), "env-1", key)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestGrants: the grant in a registry's answer is used only if it was requested. A grant that is
// not understood refuses the harness, because it could be a restriction.
func TestGrants(t *testing.T) {
	key, _ := publicKey(t)
	for name, tt := range map[string]struct {
		accepts bool
		grant   string
		want    string // the role and the directory of the grant; "": there is none
		fails   bool
	}{
		"run":                {true, `{"token":"0123456789ab","name":"ada","role":"run","dir":"/d","maxSandbox":"read-only"}`, "run /d", false},
		"not asked for":      {false, `"anything"`, "", false},
		"another member":     {true, `{"token":"0123456789ab","role":"run","only_from":"10.0.0.0/8"}`, "", true},
		"another case":       {true, `{"token":"0123456789ab","role":"run","Dir":"/d"}`, "", true},
		"another role":       {true, `{"token":"0123456789ab","role":"root"}`, "", true},
		"no role":            {true, `{"token":"0123456789ab"}`, "", true},
		"a role twice":       {true, `{"token":"0123456789ab","role":"read","role":"admin"}`, "", true},
		"a bad directory":    {true, `{"token":"0123456789ab","role":"run","dir":"../d"}`, "", true},
		"admin with ceiling": {true, `{"token":"0123456789ab","role":"admin","dir":"/d"}`, "", true},
		"a hostile name":     {true, `{"token":"0123456789ab","name":"\u001b[2J","role":"run"}`, "", true},
		"no token":           {true, `{"role":"run"}`, "", true},
		"null":               {true, `null`, "", true},
		"text":               {true, `"run"`, "", true},
	} {
		grant, err := client(t, answer(200, `{"valid":true,"grant":`+tt.grant+`}`)).Validate(t.Context(), "e", registry.Claim{HarnessKey: key, AcceptsGrant: tt.accepts})
		got := ""
		if grant != nil {
			got = string(grant.Role) + " " + grant.Dir
		}
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got grant %q, error %v; want %q, an error %v", name, got, err, tt.want, tt.fails)
		}
	}
}

func TestValidateErrors(t *testing.T) {
	key, _ := publicKey(t)
	const echo = "let me in"
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no":               {200, `{"valid":false}`, "environment registry rejected Noise relay harness key"},
		"yes, misspelt":    {200, `{"Valid":true}`, "environment registry harness key validation failed"},
		"no and yes":       {200, `{"valid":false,"valid":true}`, "environment registry harness key validation failed"},
		"neither":          {200, `{}`, "environment registry harness key validation failed"},
		"no JSON":          {200, echo, "environment registry harness key validation failed"},
		"refused":          {401, echo, "environment registry harness key validation authentication failed (401 Unauthorized)"},
		"forbidden":        {403, echo, "environment registry harness key validation authentication failed (403 Forbidden)"},
		"a failure":        {500, `{"error":{"message":"let me in"}}`, "environment registry harness key validation failed"},
		"a redirect":       {302, echo, "environment registry harness key validation failed"},
		"a broken message": {400, "\xff" + echo, "environment registry harness key validation failed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, answer(tt.status, tt.body)).Validate(t.Context(), "env-1", registry.Claim{RegistrationID: "r", HarnessKey: key, Authorization: echo})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if rejected := errors.Is(err, registry.ErrRejected); rejected != (name == "no") {
				t.Errorf("rejected: %v", rejected)
			}
		})
	}
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestSilentRegistry(t *testing.T) {
	key, _ := publicKey(t)
	synctest.Test(t, func(t *testing.T) {
		c, err := registry.New(registry.Options{BaseURL: "https://user:pw@registry.test", Authorizer: registry.Bearer("t", ""), Transport: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Register(t.Context(), "e", key)
		const want = "environment registry request failed: error sending request for url (https://user:xxxxx@registry.test/cloud/environment/e/register)"
		if err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("register: %v", err)
		}
		if _, err := c.Validate(t.Context(), "e", registry.Claim{HarnessKey: key}); !errors.Is(err, registry.ErrValidationTimeout) {
			t.Errorf("validate: %v", err)
		}
		bound, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Validate(bound, "e", registry.Claim{HarnessKey: key}); !errors.Is(err, registry.ErrValidationTimeout) {
			t.Errorf("validate, bounded: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Connect(ctx, "e", key); !errors.Is(err, context.Canceled) {
			t.Errorf("connect: %v", err)
		}
		if _, err := c.Validate(ctx, "e", registry.Claim{HarnessKey: key}); !errors.Is(err, context.Canceled) {
			t.Errorf("validate: %v", err)
		}
	})
}

func TestNothingIsAsked(t *testing.T) {
	key, _ := publicKey(t)
	c := client(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked", r.URL) })
	for id, want := range map[string]string{
		"":    "environment registry configuration error: environment id is required for remote exec-server registration",
		" \t": "environment registry configuration error: environment id is required for remote exec-server registration",
		"..":  "environment registry configuration error: environment id `..` cannot be part of a URL",
	} {
		var config *registry.ConfigError
		if _, err := c.Register(t.Context(), id, key); !errors.As(err, &config) || err.Error() != want {
			t.Errorf("id %q: %v", id, err)
		}
	}
	for base, want := range map[string]string{
		" / ":           "environment registry base URL is required",
		"ftp://x":       "expected http://HOST or https://HOST",
		"registry":      "expected http://HOST or https://HOST",
		"http://x/?q":   "must not have a query",
		"http://x y/":   "invalid character",
		"https:///path": "expected http://HOST or https://HOST",
	} {
		if _, err := registry.New(registry.Options{BaseURL: base}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("base URL %q: %v", base, err)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	key, _ := publicKey(t)
	reason := errors.New("signed out")
	c, err := registry.New(registry.Options{BaseURL: "http://registry.test", Transport: silent{},
		Authorizer: registry.AuthorizerFunc(func(context.Context, http.Header) error { return reason })})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Register(t.Context(), "e", key)
	if !errors.Is(err, reason) || err.Error() != "environment registry authentication error: signed out" {
		t.Errorf("register: %v", err)
	}
	if _, err := c.Validate(t.Context(), "e", registry.Claim{HarnessKey: key}); !errors.Is(err, reason) {
		t.Errorf("validate: %v", err)
	}
}

// FuzzAnswer makes the client read arbitrary answers of a registry. An accepted answer has
// everything that a harness needs.
func FuzzAnswer(f *testing.F) {
	key, doc := publicKey(f)
	f.Add(200, []byte(`{"environment_id":"e","url":"u","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r","executor_public_key":`+doc+`,"harness_key_authorization":"a"}`))
	f.Add(200, []byte(`{"environment_id":"e","url":"u","security_profile":"noise_hybrid_ik_v1","executor_registration_id":""}`))
	f.Add(200, []byte(`{"valid":true}`))
	f.Add(200, []byte(`{"environment_id":"e","url":"u","security_profile":"\u001b[2J","executor_registration_id":""}`))
	f.Add(404, []byte(`{"error":{"code":"c","message":"m"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		c, err := registry.New(registry.Options{BaseURL: "http://registry.test", Authorizer: registry.Bearer("t", ""), Transport: fixed{status, string(body)}})
		if err != nil {
			t.Fatal(err)
		}
		registered, err := c.Register(t.Context(), "e", key)
		if err == nil && (status/100 != 2 || !json.Valid(body)) || err != nil && registered != (registry.Registration{}) {
			t.Errorf("%d %q was accepted as a registration, %v", status, body, err)
		}
		_, err = c.Validate(t.Context(), "e", registry.Claim{RegistrationID: "r", HarnessKey: key, Authorization: "a"})
		if err == nil && (status/100 != 2 || !bytes.Contains(body, []byte("true"))) {
			t.Errorf("%d %q was accepted as valid", status, body)
		}
		got, err := c.Connect(t.Context(), "e", key)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x1b\a\b\r") {
				t.Errorf("%d %q is told as %q", status, body, err)
			}
			return
		}
		if status/100 != 2 || got.URL == "" || got.RegistrationID == "" || got.Authorization == "" || !json.Valid(body) {
			t.Errorf("%d %q was accepted as %+v", status, body, got)
		}
	})
}

// fixed always answers the same.
type fixed struct {
	status int
	body   string
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f.body)), Request: r}, nil
}

// TestNothingPrintsCredentials prints every type that contains a credential.
func TestNothingPrintsCredentials(t *testing.T) {
	key, doc := publicKey(t)
	c, err := registry.New(registry.Options{BaseURL: "https://user:secret@registry.test", Authorizer: registry.Bearer("secret", ""), Transport: fixed{200,
		`{"environment_id":"e","url":"wss://x/?secret","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r","executor_public_key":` + doc + `,"harness_key_authorization":"secret"}`}})
	if err != nil {
		t.Fatal(err)
	}
	registration, err := c.Register(t.Context(), "e", key)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := c.Connect(t.Context(), "e", key)
	if err != nil || !strings.Contains(connection.URL, "secret") || connection.Authorization != "secret" {
		t.Fatal(err)
	}
	claim := registry.Claim{RegistrationID: "r", HarnessKey: key, Authorization: "secret"}
	for _, v := range []any{registration, &registration, connection, &connection, claim, &claim, c, registry.Bearer("secret", "")} {
		var out strings.Builder
		for _, v := range []any{v, []any{v}, struct{ V any }{v}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&out, verb, v)
			}
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
			_ = json.NewEncoder(&out).Encode(v)
		}
		if strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "736563726574") {
			t.Errorf("%T is printed as %s", v, out.String())
		}
	}
	if _, err := registry.New(registry.Options{BaseURL: "https://user:secret@registry test"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: %v", err)
	}
}
