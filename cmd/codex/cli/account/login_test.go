package account

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// identityService answers in place of the identity service, by METHOD https://host/path.
type identityService struct {
	t       *testing.T
	answers map[string]identityAnswer
	asked   []string
}

type identityAnswer struct {
	status int
	body   string
}

func (s *identityService) RoundTrip(r *http.Request) (*http.Response, error) {
	target := r.Method + " " + r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
	s.asked = append(s.asked, target)
	answer, ok := s.answers[target]
	if !ok {
		s.t.Errorf("nobody was to ask %s", target)
		answer.status = http.StatusNotFound
	}
	w := httptest.NewRecorder()
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
	return w.Result(), nil
}

// homeWith returns a home directory with files. It also removes credentials from the environment.
func homeWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CODEX_HOME", dir)
	for _, name := range []string{"CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_AUTHAPI_BASE_URL", "CODEX_REVOKE_TOKEN_URL_OVERRIDE", "CODEX_REFRESH_TOKEN_URL_OVERRIDE", "CODEX_APP_SERVER_LOGIN_CLIENT_ID"} {
		t.Setenv(name, "")
	}
	return dir
}

// runLogin runs one of the commands that sign in and out.
func runLogin(t *testing.T, id Identity, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	s := cmdutil.NewStreams(stdin, &out, &errs)
	app := &cli.App{
		Name: "codex", Writer: &out, ErrWriter: &errs, Flags: cmdutil.RootFlags(), ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: cmdutil.OnUsageError,
		DisableSliceFlagSeparator: true,
		Commands:                  []*cli.Command{LoginCommand(s, id), LogoutCommand(s, id)},
	}
	err := app.RunContext(t.Context(), append([]string{"codex"}, args...))
	if err != nil && !strings.HasPrefix(err.Error(), "exit code") {
		errs.WriteString("Error: " + err.Error() + "\n")
	}
	return out.String(), errs.String(), codeOf(err)
}

// idToken is a JWT with claims, whose signature is not checked.
func idToken(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

const (
	tokenPost  = "POST https://auth.openai.com/oauth/token"
	revokePost = "POST https://auth.openai.com/oauth/revoke"
	whoamiGet  = "GET https://auth.openai.com/api/accounts/v1/user-auth-credential/whoami"
)

func TestLoginTranscripts(t *testing.T) {
	chat := `{"tokens":{"id_token":"` + idToken(`{}`) + `","access_token":"a","refresh_token":"r"}}`
	whoami := map[string]identityAnswer{whoamiGet: {200, `{"chatgpt_account_id":"acct-1"}`}}
	for name, tt := range map[string]struct {
		args    string
		stdin   string
		files   map[string]string
		env     map[string]string
		answers map[string]identityAnswer
		stderr  string
		code    int
		auth    string // expected auth.json afterwards; empty: it must not exist
	}{
		"an API key": {"login --with-api-key", " sk-1\n", nil, nil, nil,
			"Reading API key from stdin...\nSuccessfully logged in\n", 0, "{\n  \"auth_mode\": \"apikey\",\n  \"OPENAI_API_KEY\": \"sk-1\"\n}"},
		"no API key": {"login --with-api-key", " \n", nil, nil, nil,
			"Reading API key from stdin...\nNo API key provided via stdin.\n", 1, ""},
		"two lines": {"login --with-api-key", "sk-1\nsk-2\n", nil, nil, nil,
			"Reading API key from stdin...\nFailed to read API key from stdin: it contains blanks, line breaks or other invalid characters; pipe in only the key.\n", 1, ""},
		"an endless API key": {"login --with-api-key", strings.Repeat("k", maxSecret+1), nil, nil, nil,
			"Reading API key from stdin...\nFailed to read API key from stdin: there are more than 1048576 bytes\n", 1, ""},
		"an access token": {"login --with-access-token", "at-5\n", nil, nil, whoami,
			"Reading access token from stdin...\nSuccessfully logged in\n", 0, "{\n  \"OPENAI_API_KEY\": null,\n  \"personal_access_token\": \"at-5\"\n}"},
		"no access token": {"login --with-access-token", "", nil, nil, nil,
			"Reading access token from stdin...\nNo access token provided via stdin.\n", 1, ""},
		"a bad access token": {"login --with-access-token", "x.y", nil, nil, nil,
			"Reading access token from stdin...\nError logging in with access token: invalid agent identity JWT format\n", 1, ""},
		"an agent elsewhere": {"login --with-access-token -c chatgpt_base_url=http://127.0.0.1:1", "x.y.z", nil, nil, nil,
			"Reading access token from stdin...\nError logging in with access token: Agent Identity only supports production and staging ChatGPT environments\n", 1, ""},
		"both": {"login --with-api-key --with-access-token", "x", nil, nil, nil,
			"Choose one login credential source: --with-api-key or --with-access-token.\n", 1, ""},
		"--api-key": {"login --api-key k", "", nil, nil, nil,
			"The --api-key flag is no longer supported. Pipe the key instead, e.g. `printenv OPENAI_API_KEY | codex login --with-api-key`.\n", 1, ""},
		"an API key where it is forbidden": {"login --with-api-key", "k", map[string]string{"config.toml": `forced_login_method = "chatgpt"`}, nil, nil,
			"Reading API key from stdin...\nAPI key login is disabled. Use ChatGPT login instead.\n", 1, ""},
		"ChatGPT where it is forbidden": {"login -c forced_login_method=api", "", nil, nil, nil,
			"ChatGPT login is disabled. Use API key login instead.\n", 1, ""},
		"a device where it is forbidden": {"login --device-auth -c forced_login_method=api", "", nil, nil, nil,
			"ChatGPT login is disabled. Use API key login instead.\n", 1, ""},
		"an access token where it is forbidden": {"-c forced_login_method=api login --with-access-token", "at-5", nil, nil, nil,
			"Reading access token from stdin...\nAccess token login is disabled. Use API key login instead.\n", 1, ""},
		"a bad config.toml": {"login --with-api-key", "k", map[string]string{"config.toml": `forced_login_method = "API"`}, nil, nil,
			"Error loading configuration: HOME/config.toml:1:23: unknown variant `API`, expected `chatgpt` or `api`\n", 1, ""},
		"no home": {"logout", "", nil, map[string]string{"CODEX_HOME": "/nowhere"}, nil,
			"Error loading configuration: CODEX_HOME points to \"/nowhere\", but that path does not exist\n", 1, ""},
		"a strict status": {"login status --strict-config", "", map[string]string{"config.toml": "nope = 1"}, nil, nil,
			"Error loading configuration: HOME/config.toml:1:1: unknown configuration field `nope`\n", 1, ""},
		"a strict login": {"login --strict-config status", "", map[string]string{"config.toml": "nope = 1"}, nil, nil,
			"Error loading configuration: HOME/config.toml:1:1: unknown configuration field `nope`\n", 1, ""},
		"the last override counts": {"-c cli_auth_credentials_store=keyring login -c cli_auth_credentials_store=keyring status -c cli_auth_credentials_store=file", "", nil, nil, nil,
			"Not logged in\n", 1, ""},
		"an override of login": {"-c cli_auth_credentials_store=file login -c cli_auth_credentials_store=keyring status", "", nil, nil, nil,
			"Error: cli_auth_credentials_store is keyring: this codex cannot use a keyring; set it to file\n", 1, ""},
		"a keyring": {"login -c cli_auth_credentials_store=keyring", "", nil, nil, nil,
			"Error: cli_auth_credentials_store is keyring: this codex cannot use a keyring; set it to file\n", 1, ""},
		"an unknown command": {"login statsu", "", nil, nil, nil,
			"Error: codex login has no command \"statsu\"; did you mean status? see codex login --help\n", 2, ""},
		"the remote of others": {"--remote x login", "", nil, nil, nil,
			"Error: `--remote x` is only supported for interactive TUI commands, not `codex login`\n", 1, ""},

		"the remote of others, of a status": {"--remote x login status", "", nil, nil, nil,
			"Error: `--remote x` is only supported for interactive TUI commands, not `codex login`\n", 1, ""},
		"status of nobody": {"login status", "", nil, map[string]string{"CODEX_API_KEY": "k"}, nil, "Not logged in\n", 1, ""},
		"status with a key": {"login status", "", map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-proj-12345ABCDE"}`}, nil, nil,
			"Logged in using an API key - sk-proj-***ABCDE\n", 0, `{"OPENAI_API_KEY":"sk-proj-12345ABCDE"}`},
		"status with ChatGPT": {"login status", "", map[string]string{"auth.json": chat}, nil, nil, "Logged in using ChatGPT\n", 0, chat},
		"status with a token": {"login status", "", map[string]string{"auth.json": chat}, map[string]string{"CODEX_ACCESS_TOKEN": "at-5"}, whoami,
			"Logged in using personal access token\n", 0, chat},
		"status with a bad file": {"login status", "", map[string]string{"auth.json": `{"tokens":{"id_token":"x","access_token":"","refresh_token":""}}`}, nil, nil,
			"Error checking login status: HOME/auth.json: tokens: id_token: invalid ID token format\nhint: codex login replaces the stored credentials, and codex logout removes them\n", 1, `{"tokens":{"id_token":"x","access_token":"","refresh_token":""}}`},

		"status without the key": {"login status", "", map[string]string{"auth.json": `{"auth_mode":"apikey"}`}, nil, nil,
			"Error checking login status: API key auth is missing a key.\n", 1, `{"auth_mode":"apikey"}`},
		"status without the token": {"login status", "", map[string]string{"auth.json": `{"auth_mode":"personalAccessToken"}`}, nil, nil,
			"Error checking login status: personal access token auth is missing a personal access token.\n", 1, `{"auth_mode":"personalAccessToken"}`},
		"status without the agent": {"login status", "", map[string]string{"auth.json": `{"auth_mode":"agentIdentity"}`}, nil, nil,
			"Error checking login status: agent identity auth is missing agent identity auth material.\n", 1, `{"auth_mode":"agentIdentity"}`},

		"logout": {"logout", "", map[string]string{"auth.json": chat}, nil, map[string]identityAnswer{revokePost: {200, ""}},
			"Successfully logged out\n", 0, ""},
		"logout where nobody listens": {"logout", "", map[string]string{"auth.json": chat}, nil, map[string]identityAnswer{revokePost: {500, ""}},
			"Successfully logged out\n", 0, ""},
		"logout of nobody": {"logout", "", nil, nil, nil, "Not logged in\n", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := homeWith(t, tt.files)
			for name, v := range tt.env {
				t.Setenv(name, v)
			}
			id := Identity{transport: &identityService{t: t, answers: tt.answers}}
			stdout, stderr, code := runLogin(t, id, strings.NewReader(tt.stdin), strings.Fields(tt.args)...)
			if stderr = strings.ReplaceAll(stderr, dir+string(filepath.Separator), "HOME/"); stderr != tt.stderr || stdout != "" || code != tt.code {
				t.Errorf("got %d, stdout %q\n%s\nwant %d\n%s", code, stdout, stderr, tt.code, tt.stderr)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "auth.json")); string(text) != tt.auth || (err == nil) != (tt.auth != "") {
				t.Errorf("auth.json: %s, %v", text, err)
			}
		})
	}
}

// Commands that only read, or have nothing to sign out of, create no home directory.
func TestStatusMakesNothing(t *testing.T) {
	homeWith(t, nil)
	dir := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(name, dir)
	}
	t.Setenv("CODEX_HOME", "")
	for _, args := range []string{"login status", "login status stray", "logout", "logout stray"} {
		runLogin(t, Identity{transport: &identityService{t: t}}, strings.NewReader(""), strings.Fields(args)...)
		if made, err := os.ReadDir(dir); err != nil || len(made) != 0 {
			t.Errorf("%s makes %v, %v", args, made, err)
		}
	}
	if _, errs, code := runLogin(t, Identity{transport: &identityService{t: t}}, strings.NewReader("sk-1"), "login", "--with-api-key"); code != 0 {
		t.Error(errs)
	}
	if _, err := os.Stat(filepath.Join(dir, ".codex", "log", "codex-login.log")); err != nil {
		t.Error(err)
	}
}

func TestLoginNeedsAPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // the test's terminal works on Linux only
	}
	homeWith(t, nil)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	for flag, want := range map[string]string{
		"--with-api-key":      "--with-api-key expects the API key on stdin. Try piping it, e.g. `printenv OPENAI_API_KEY | codex login --with-api-key`.\n",
		"--with-access-token": "--with-access-token expects the access token on stdin. Try piping it, e.g. `printenv CODEX_ACCESS_TOKEN | codex login --with-access-token`.\n",
	} {
		if _, stderr, code := runLogin(t, Identity{transport: &identityService{t: t}}, terminal, "login", flag); stderr != want || code != 1 {
			t.Errorf("%s: got exit code %d, stderr %q; want stderr %q, exit code 1", flag, code, stderr, want)
		}
	}
}

func TestBrowserLogin(t *testing.T) {
	tokens := identityAnswer{200, `{"id_token":"` + idToken(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acct-1"}}`) + `","access_token":"sk-a","refresh_token":"secret-r"}`}
	for name, tt := range map[string]struct {
		query string // the query with which the browser returns
		end   string // expected end of stderr
		code  int
	}{
		"signs in":     {"code=c", "Successfully logged in\n", 0},
		"is refused":   {"error=access_denied&error_description=not+you", "OAuth callback error: Sign-in failed: not you\nError logging in: Sign-in failed: not you\n", 1},
		"is cancelled": {"", "Error logging in: Login cancelled\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := homeWith(t, nil)
			authorize := ""
			id := Identity{
				transport: &identityService{t: t, answers: map[string]identityAnswer{tokenPost: tokens}},
				ports:     []int{0},
				Open: func(text string) error {
					authorize = text
					u, err := url.Parse(text)
					if err != nil {
						return err
					}
					back := u.Query().Get("redirect_uri") + "?" + tt.query + "&state=" + url.QueryEscape(u.Query().Get("state"))
					if tt.query == "" {
						back = strings.TrimSuffix(u.Query().Get("redirect_uri"), "/auth/callback") + "/cancel"
					}
					resp, err := http.Get(back)
					if err != nil {
						return err
					}
					return resp.Body.Close()
				},
			}
			// The two hidden options are for the device flow only.
			stdout, stderr, code := runLogin(t, id, nil, "login", "--experimental_issuer", "http://127.0.0.1:1")
			want := regexp.MustCompile(`^Starting local login server on http://localhost:\d+\.
If your browser did not open, navigate to this URL to authenticate:

` + regexp.QuoteMeta(authorize) + `

On a remote or headless machine\? Use ` + "`codex login --device-auth`" + ` instead\.
` + regexp.QuoteMeta(tt.end) + `$`)
			if !want.MatchString(stderr) || stdout != "" || code != tt.code || !strings.HasPrefix(authorize, "https://auth.openai.com/oauth/authorize?") {
				t.Errorf("got %d, %q\n%s", code, stdout, stderr)
			}
			path := filepath.Join(dir, "log", "codex-login.log")
			log, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(log), "secret") || !strings.Contains(string(log), "command=login") {
				t.Errorf("the log: %s, %v", log, err)
			}
			if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
				t.Errorf("the log: %v, %v", st, err)
			}
		})
	}
}

func TestDeviceLogin(t *testing.T) {
	homeWith(t, nil)
	const issuer = "http://127.0.0.1:1/x"
	s := &identityService{t: t, answers: map[string]identityAnswer{
		"POST " + issuer + "/api/accounts/deviceauth/usercode": {200, `{"device_auth_id":"d","user_code":"ABCD-1234","interval":"1"}`},
		"POST " + issuer + "/api/accounts/deviceauth/token":    {200, `{"authorization_code":"c","code_verifier":"v"}`},
		"POST " + issuer + "/oauth/token":                      {200, `{"id_token":"` + idToken(`{}`) + `","access_token":"a","refresh_token":"r"}`},
	}}
	args := []string{"login", "--device-auth", "--experimental_issuer", issuer + "/", "--experimental_client-id", "me"}
	stdout, stderr, code := runLogin(t, Identity{transport: s}, nil, args...)
	if code != 0 || stderr != "Successfully logged in\n" || !strings.Contains(stdout, "   "+issuer+"/codex/device\n") || !strings.Contains(stdout, "   ABCD-1234\n") {
		t.Errorf("got %d\n%s\n%s", code, stdout, stderr)
	}
	s.answers["POST "+issuer+"/api/accounts/deviceauth/token"] = identityAnswer{status: 500}
	s.answers[revokePost] = identityAnswer{status: 200} // revoke the tokens of the first attempt
	_, stderr, code = runLogin(t, Identity{transport: s}, nil, args...)
	if code != 1 || stderr != "Error logging in with device code: device auth failed with status 500 Internal Server Error\n" {
		t.Errorf("got %d, %s", code, stderr)
	}
}
